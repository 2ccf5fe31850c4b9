#include "train/feed.h"

namespace emblem {
namespace {

template <class T>
View<const T> view_of(const HostVector<T>& values, int64_t cols = 1) {
  return {values.data(), static_cast<int64_t>(values.size()) / cols, cols};
}

}  // namespace

const ModelBatch& Feed::set(const Batch& batch) {
  keys_.clear();
  for (const SparseColumn& column : batch.sparse) {
    keys_.push_back({view_of(column.keys), view_of(column.offsets), view_of(column.weights)});
  }
  const int64_t dense_cols =
      batch.rows > 0 ? static_cast<int64_t>(batch.dense.size()) / batch.rows : 0;
  view_ = {.rows = batch.rows,
           .dense = {batch.dense.data(), batch.rows, dense_cols},
           .labels = view_of(batch.labels),
           .weights = view_of(batch.sample_weights),
           .sparse = keys_};
  return view_;
}

}  // namespace emblem
