#include "model/predictor.h"

#include <algorithm>

#include "model/probability.h"

namespace emblem {
namespace {

// Rows [begin, begin + rows) of a feature. `offsets` takes those of the piece where it has any.
FeatureKeys rows_of(const FeatureKeys& all, int64_t begin, int64_t rows,
                    HostVector<int32_t>& offsets) {
  int64_t first = begin, count = rows;
  View<const int32_t> piece_offsets;
  if (all.offsets.size() > 0) {
    const int32_t* from = all.offsets.data + begin;
    first = from[0];
    count = from[rows] - first;
    offsets.resize(static_cast<size_t>(rows + 1));
    for (int64_t row = 0; row <= rows; ++row)
      offsets[static_cast<size_t>(row)] = from[row] - from[0];
    piece_offsets = {offsets.data(), rows + 1, 1};
  }
  View<const float> weights;
  if (all.weights.size() > 0) weights = {all.weights.data + first, count, 1};
  return {{all.keys.data + first, count, 1}, piece_offsets, weights};
}

}  // namespace

HostPredictor::HostPredictor(std::unique_ptr<Model> model) : model_(std::move(model)) {
  model_->graph().freeze();
}

void HostPredictor::run(const Context& context, const ModelBatch& batch,
                        std::span<float> probabilities) {
  offsets_.resize(batch.sparse.size());
  for (int64_t begin = 0; begin < batch.rows; begin += kPieceRows) {
    const int64_t rows = std::min(kPieceRows, batch.rows - begin);
    keys_.clear();
    for (size_t f = 0; f < batch.sparse.size(); ++f)
      keys_.push_back(rows_of(batch.sparse[f], begin, rows, offsets_[f]));
    ModelBatch piece{.rows = rows, .sparse = keys_};
    piece.dense = {batch.dense.data + begin * batch.dense.cols, rows, batch.dense.cols};
    model_->forward(context, piece, Phase::kEval, 0);
    const View<const float> logits = model_->logits();
    for (int64_t row = 0; row < rows; ++row)
      probabilities[static_cast<size_t>(begin + row)] = probability_of(logits.data[row]);
  }
}

}  // namespace emblem
