// model/lookup/batch_view.h - a Batch in host memory as the model sees it.
#pragma once

#include <vector>

#include "data/batch.h"
#include "model/model_batch.h"

namespace emblem {

class BatchView {
 public:
  // Views into `batch`, which must outlive them; valid until the next call.
  const ModelBatch& set(const Batch& batch) {
    keys_.clear();
    for (const SparseColumn& column : batch.sparse)
      keys_.push_back({matrix_of(column.keys, std::ssize(column.keys)),
                       matrix_of(column.offsets, std::ssize(column.offsets)),
                       matrix_of(column.weights, std::ssize(column.weights))});
    sequences_.clear();
    for (const SequenceColumn& column : batch.sequences)
      sequences_.push_back({column.elements(), matrix_of(column.offsets, batch.rows + 1),
                            matrix_of(column.numbers, column.elements())});
    view_ = {.rows = batch.rows,
             .dense = matrix_of(batch.dense, batch.rows),
             .labels = matrix_of(batch.labels, batch.rows),
             .weights = matrix_of(batch.sample_weights, batch.rows),
             .sparse = keys_,
             .sequences = sequences_,
             .candidate_logs = matrix_of(batch.candidate_logs, std::ssize(batch.candidate_logs)),
             .candidate_of = matrix_of(batch.candidate_of, std::ssize(batch.candidate_of))};
    return view_;
  }

 private:
  template <class T>
  static View<const T> matrix_of(const HostVector<T>& values, int64_t rows) {
    return {values.data(), rows, rows > 0 ? std::ssize(values) / rows : 0};
  }

  std::vector<FeatureKeys> keys_;
  std::vector<SequenceView> sequences_;
  ModelBatch view_;
};

}  // namespace emblem
