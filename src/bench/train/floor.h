// bench/train/floor.h - lower bound of the memory traffic of a training step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/half.h"
#include "model/model.h"

namespace emblem {

// The work of one step on a table, independent of the implementation.
struct TableWork {
  int64_t dim = 0, state_floats = 0;  // of a row
  double bags = 0;                    // pooled vectors
  double lookups = 0;                 // keys
  double unique_rows = 0;             // distinct rows among them: each is read and updated once
};

// The work of one batch for every table of the model.
std::vector<TableWork> table_work(const Context& context, const Model& model,
                                  const ModelBatch& batch);

double unique_rows(std::span<const TableWork> work);

// The fewest bytes read from and written to device memory: rows are read; gradients of bags, in the
// precision of the model, are written and read; weights and optimizer state of rows are read and
// written; keys are read. Activations are not counted: the measured speed of matrix products
// includes their traffic.
double least_table_bytes(std::span<const TableWork> work, DType precision);

}  // namespace emblem
