// embedding/cuda/update/update_rows.h - sums the gradients of each distinct row of a batch and
// updates the row once.
#pragma once

#include "core/device/context.h"
#include "core/math/half.h"
#include "embedding/cuda/table/row_shape.h"
#include "embedding/cuda/update/update_scalars.h"
#include "optim/rule.h"

namespace emblem::cuda {

struct BatchRef;
struct DeviceTableRef;

// The class of tables with the same shape, rule and l2.
struct UpdateRows {
  int cls = 0;
  uint32_t most = 0;  // occurrences
  bool in_order = false;
  RowShape shape = RowShape::kUpTo128;
  const void* gradients = nullptr;
  DType gradient_type = DType::kF32;
  float scale = 1.0f;
  float l2 = 0.0f;
  Rule rule;  // made by at_step
  // Random bits for rounding to 16-bit weights (embedding/rounding.h); 0: to nearest.
  uint32_t rounding_draw = 0;
  const UpdateScalars* values = nullptr;  // replaces those of the step; or null
  float* partials = nullptr;              // [tiles, floats of the shape]; zero before and after
  uint32_t* arrivals = nullptr;           // [tiles]; zero before and after
  // With in_order, for add_squared_norm: the positions of occurrences, and one float for each.
  const uint32_t* positions = nullptr;
  float* squares = nullptr;
};

// Applies the rule to every weight with the gradient scale * (sum of the occurrences) + l2 *
// weight. A tile of occurrences is summed in order; rows whose occurrences are in several tiles are
// summed by atomic additions of these sums, in any order: their last bits may differ from run to
// run. With in_order (after sort_rows) all sums are deterministic. Asynchronous.
void update_rows(const Context& context, const BatchRef& batch, const UpdateRows& op);

// sum[0] += the squared norm of the summed gradients (without scale and l2); sum has kSumDoubles
// (embedding/cuda/update/deterministic_sum.h). With in_order in one order: by the first position of
// each row.
void add_squared_norm(const Context& context, const BatchRef& batch, const UpdateRows& op,
                      double* sum);

// The squared norms themselves, of rows by their first positions, 0 at other positions: op.most of
// them. Needs in_order.
const float* squares_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op);

// Replaces every row by the sum of the gradients of its occurrences.
void store_sums(const Context& context, const BatchRef& batch, const UpdateRows& op);

// The rows that the last pass did not touch, with l2 * weight as their gradient. `rows`: numbers
// are below.
void update_other_rows(const Context& context, const DeviceTableRef* table, int64_t rows,
                       const UpdateRows& op);

// Occurrences per tile for a batch of at most `occurrences`.
uint32_t update_tile(uint32_t occurrences);

// Floats that a row of `shape` takes in partials.
int64_t partial_floats(RowShape shape);

}  // namespace emblem::cuda
