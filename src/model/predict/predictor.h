// model/predict/predictor.h - a trained model as a function: batches of any size in, predictions
// out.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/feature/heads.h"
#include "model/lookup/batch_piece.h"
#include "model/model.h"

namespace emblem {

// A matrix to fill: [rows of the batch, spec.cols], in host memory.
struct PredictedOutput {
  OutputSpec spec;
  View<float> values;
};

// Used by one thread at a time. Allocates nothing once it has seen its largest batch.
class Predictor {
 public:
  virtual ~Predictor() = default;

  // Fills each of `outputs`. The batch is in host memory; its labels are not read. The context has
  // the threads to use.
  virtual void run(const Context& context, const ModelBatch& batch,
                   std::span<const PredictedOutput> outputs) = 0;
  // Fills probabilities[batch.rows] of label 1 of the first head.
  void run(const Context& context, const ModelBatch& batch, std::span<float> probabilities);

  virtual Model& model() = 0;
};

// Fills rows [begin, begin + rows) of the outputs out of the logits of these rows, which are in
// host memory.
using LogitsOfHead = std::function<View<const float>(size_t head)>;
void fill_rows(std::span<const PredictedOutput> outputs, const Model& model, int64_t begin,
               int64_t rows, const LogitsOfHead& logits);

// Predicts on the CPU.
class HostPredictor final : public Predictor {
 public:
  // Batches are computed by pieces of this many rows, whose values stay in the caches; they make
  // whole tiles for each thread (TileKernel::rows).
  static int64_t piece_rows(int threads = 1);

  // `model` was made for `piece_rows` rows and has its parameters, which stay as they are.
  HostPredictor(std::unique_ptr<Model> model, int64_t piece_rows);

  using Predictor::run;
  void run(const Context& context, const ModelBatch& batch,
           std::span<const PredictedOutput> outputs) override;
  Model& model() override { return *model_; }

 private:
  std::unique_ptr<Model> model_;
  int64_t piece_rows_;
  BatchPiece piece_;
};

}  // namespace emblem
