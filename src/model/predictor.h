// model/predictor.h - a trained model as a function: batches of any size in, probabilities out.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/host_vector.h"
#include "model/model.h"

namespace emblem {

// Used by one thread at a time. Allocates nothing once it has seen its largest batch.
class Predictor {
 public:
  // Batches are computed by pieces of this many rows, whose values stay in the caches.
  static constexpr int64_t kPieceRows = 256;

  // `model` was made for kPieceRows rows and has its parameters, which stay as they are.
  explicit Predictor(std::unique_ptr<Model> model);

  // Fills probabilities[batch.rows]. Labels are not read.
  void run(const Context& context, const ModelBatch& batch, std::span<float> probabilities);

  Model& model() { return *model_; }

 private:
  std::unique_ptr<Model> model_;
  std::vector<FeatureKeys> keys_;             // of a piece
  std::vector<HostVector<int32_t>> offsets_;  // likewise
};

}  // namespace emblem
