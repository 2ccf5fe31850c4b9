// model/predict/plain_predictor.h - a trained model as a function on a GPU, for models that
// DevicePredictor does not run: several heads or classes, sequences, several keys of a feature.
// CUDA builds only.
#pragma once

#include <memory>
#include <vector>

#include "model/lookup/batch_copier.h"
#include "model/lookup/batch_piece.h"
#include "model/predict/predictor.h"

namespace emblem::cuda {

// Copies a batch, runs the model's forward pass, and copies the logits back.
class PlainPredictor final : public Predictor {
 public:
  // `model` was made on the context's GPU for max_rows rows and has its parameters. The context has
  // a stream of its own.
  PlainPredictor(const Context& context, std::unique_ptr<Model> model, int64_t max_rows);
  ~PlainPredictor() override { context_.synchronize(); }

  using Predictor::run;
  void run(const Context& context, const ModelBatch& batch,
           std::span<const PredictedOutput> outputs) override;
  Model& model() override { return *model_; }

 private:
  Context context_;
  std::unique_ptr<Model> model_;
  int64_t max_rows_;
  BatchPiece piece_;
  BatchCopier copier_;
  std::vector<std::vector<float>> logits_;  // logits of each head, in host memory
};

}  // namespace emblem::cuda
