// embedding/cpu/segment_update.h - sums the gradients of each row and updates the row once.
#pragma once

#include "core/device/context.h"
#include "embedding/rounding.h"
#include "embedding/rows_ref.h"
#include "optim/rule.h"

namespace emblem {

// Segment s is the row rows[s] with the gradients of its occurrences: positions
// [offsets[s], offsets[s + 1]) of `sources` (where in the gradients its vector begins, in floats)
// and `coefficients` (by what it is multiplied). A row appears in one segment only.
struct Segments {
  const uint32_t* rows = nullptr;     // [count]
  const uint32_t* offsets = nullptr;  // [count + 1]
  const uint32_t* sources = nullptr;
  const float* coefficients = nullptr;  // null: all 1
  int64_t count = 0;
};

// Applies the rule to every weight with the gradient scale * (sum of the segment) + l2 * weight.
struct SegmentUpdate {
  RowsRef rows;
  Segments segments;
  const float* gradients = nullptr;
  float scale = 1.0f;
  float l2 = 0.0f;
  Rule rule;  // made by at_step
  // Random bits for rounding to 16-bit weights (embedding/rounding.h).
  uint32_t rounding_draw = kRoundToNearest;
  int64_t first_column = 0;  // first column of a slice of columns
};

// Runs on the CPU (embedding/cuda/lookup/find_gather.h and update_rows.h do it on a GPU). Sums
// in the order of the occurrences.
void segment_update(const Context& context, const SegmentUpdate& op);

namespace cpu {
// The segments [begin, end) on the calling thread.
void segment_update(const SegmentUpdate& op, int64_t begin, int64_t end);
// The squared norm of the summed gradients (without scale and l2) of the segments [begin, end).
double squared_norm(const SegmentUpdate& op, int64_t begin, int64_t end);
// The summed gradients themselves: of segment s to to[segments.rows[s]], which has room for a row.
void sum_segments(const SegmentUpdate& op, int64_t begin, int64_t end, float* const* to);
}  // namespace cpu
}  // namespace emblem
