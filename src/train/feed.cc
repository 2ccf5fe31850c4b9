#include "train/feed.h"

#include "train/batch_copier.h"

namespace emblem {
namespace {

template <class T>
View<const T> view_of(const HostVector<T>& values, int64_t cols = 1) {
  return {values.data(), static_cast<int64_t>(values.size()) / cols, cols};
}

}  // namespace

Feed::Feed(const Context& context) : context_(context) {
  dispatch(
      context.device, [] {}, [&] { copier_ = std::make_shared<cuda::BatchCopier>(context_); });
}

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
  return dispatch(
      context_.device, [&]() -> const ModelBatch& { return view_; },
      [&]() -> const ModelBatch& { return copier_->copy(view_); });
}

}  // namespace emblem
