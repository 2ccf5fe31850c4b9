// model/batch_view.h - a Batch in host memory as the model sees it.
#pragma once

#include <vector>

#include "data/batch.h"
#include "model/model.h"

namespace emblem {

class BatchView {
 public:
  // Views into `batch`, which must outlive them; valid until the next call.
  const ModelBatch& set(const Batch& batch) {
    keys_.clear();
    for (const SparseColumn& column : batch.sparse)
      keys_.push_back({view_of(column.keys), view_of(column.offsets), view_of(column.weights)});
    const int64_t dense_cols =
        batch.rows > 0 ? static_cast<int64_t>(batch.dense.size()) / batch.rows : 0;
    view_ = {.rows = batch.rows,
             .dense = {batch.dense.data(), batch.rows, dense_cols},
             .labels = view_of(batch.labels),
             .weights = view_of(batch.sample_weights),
             .sparse = keys_};
    return view_;
  }

 private:
  template <class T>
  static View<const T> view_of(const HostVector<T>& values) {
    return {values.data(), static_cast<int64_t>(values.size()), 1};
  }

  std::vector<FeatureKeys> keys_;
  ModelBatch view_;
};

}  // namespace emblem
