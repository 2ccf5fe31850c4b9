// model/lookup/batch_piece.h - some rows of a batch in host memory, as a batch.
#pragma once

#include <vector>

#include "core/memory/host_vector.h"
#include "model/model_batch.h"

namespace emblem {

class BatchPiece {
 public:
  // `sequence_of_feature`: for each of ModelBatch::sparse the position in ModelBatch::sequences,
  // or -1.
  explicit BatchPiece(std::vector<int64_t> sequence_of_feature)
      : sequence_of_feature_(std::move(sequence_of_feature)) {}

  // Rows [begin, begin + rows) of `batch`, without labels and weights. Views into it and into this
  // object; valid until the next call.
  const ModelBatch& cut(const ModelBatch& batch, int64_t begin, int64_t rows);

 private:
  std::vector<int64_t> sequence_of_feature_;
  std::vector<FeatureKeys> keys_;
  std::vector<SequenceView> sequences_;
  std::vector<HostVector<int32_t>> key_offsets_, sequence_offsets_;
  ModelBatch piece_;
};

}  // namespace emblem
