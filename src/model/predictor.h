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
  virtual ~Predictor() = default;

  // Fills probabilities[batch.rows]. The batch is in host memory; its labels are not read. The
  // context has the threads to use.
  virtual void run(const Context& context, const ModelBatch& batch,
                   std::span<float> probabilities) = 0;

  virtual Model& model() = 0;
};

// On the CPU.
class HostPredictor final : public Predictor {
 public:
  // Batches are computed by pieces of this many rows, whose values stay in the caches.
  static constexpr int64_t kPieceRows = 256;

  // `model` was made for kPieceRows rows and has its parameters, which stay as they are.
  explicit HostPredictor(std::unique_ptr<Model> model);

  void run(const Context& context, const ModelBatch& batch,
           std::span<float> probabilities) override;
  Model& model() override { return *model_; }

 private:
  std::unique_ptr<Model> model_;
  std::vector<FeatureKeys> keys_;             // of a piece
  std::vector<HostVector<int32_t>> offsets_;  // likewise
};

}  // namespace emblem
