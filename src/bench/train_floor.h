// bench/train_floor.h - the least that a training step must compute and move.
#pragma once

#include <cstdint>
#include <span>

#include "bench/dlrm_workload.h"
#include "core/half.h"

namespace emblem {

// What one step does to the tables, whoever does it.
struct TableWork {
  double bags = 0;         // pooled vectors
  double lookups = 0;      // keys
  double unique_rows = 0;  // different rows among them: each is read and updated once
};

// Of a batch; features are taken to have tables of their own.
TableWork table_work(const Batch& batch);

// Bytes to and from device memory if every value moved as seldom as it can: the rows are read; the
// gradients of the bags, in the precision of the model, are written and read; weights and optimizer
// state of the rows are read and written; the keys are read. What passes between layers is not
// counted: the matrix products' measured speed includes their own traffic.
double least_table_bytes(const TableWork& work, int64_t dim, int64_t state_floats, DType precision);

}  // namespace emblem
