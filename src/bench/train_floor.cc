#include "bench/train_floor.h"

#include <algorithm>

namespace emblem {

TableWork table_work(const Batch& batch) {
  TableWork work;
  HostVector<int64_t> keys;
  for (const SparseColumn& column : batch.sparse) {
    keys = column.keys;
    std::sort(keys.begin(), keys.end());
    work.unique_rows += static_cast<double>(std::unique(keys.begin(), keys.end()) - keys.begin());
    work.lookups += static_cast<double>(keys.size());
    work.bags += static_cast<double>(batch.rows);
  }
  return work;
}

double least_table_bytes(const TableWork& work, int64_t dim, int64_t state_floats,
                         DType precision) {
  const auto weights = static_cast<double>(4 * dim), state = static_cast<double>(4 * state_floats);
  const auto vector = static_cast<double>(dim * size_of(precision));
  return work.unique_rows * weights + 2 * work.bags * vector +
         2 * work.unique_rows * (weights + state) + work.lookups * sizeof(int64_t);
}

}  // namespace emblem
