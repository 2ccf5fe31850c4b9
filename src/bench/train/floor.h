// bench/train/floor.h - the least that a training step must compute and move.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/half.h"
#include "model/model.h"

namespace emblem {

// What one step does to a table, whoever does it.
struct TableWork {
  int64_t dim = 0, state_floats = 0;  // of a row
  double bags = 0;                    // pooled vectors
  double lookups = 0;                 // keys
  double unique_rows = 0;             // different rows among them: each is read and updated once
};

// Of a batch, for every table that the model owns.
std::vector<TableWork> table_work(const Context& context, const Model& model,
                                  const ModelBatch& batch);

double unique_rows(std::span<const TableWork> work);

// Bytes to and from device memory if every value moved as seldom as it can: the rows are read; the
// gradients of the bags, in the precision of the model, are written and read; weights and optimizer
// state of the rows are read and written; the keys are read. What passes between layers is not
// counted: the matrix products' measured speed includes their own traffic.
double least_table_bytes(std::span<const TableWork> work, DType precision);

}  // namespace emblem
