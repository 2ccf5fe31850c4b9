// serve/engine/pipeline_engine.h - runs a trained model on requests: columns, features, lookup,
// layers.
#pragma once

#include <memory>
#include <vector>

#include "config/features.h"
#include "core/thread_pool.h"
#include "data/feature/transform.h"
#include "model/feed.h"
#include "model/predictor.h"
#include "serve/engine/request_columns.h"
#include "serve/engine/servable.h"

namespace emblem {

inline constexpr const char* kProbability = "probability";  // the output: FP32 [rows, 1]

// Allocates nothing per batch once it has seen batches of the size.
class PipelineEngine final : public Engine {
 public:
  // `columns` and `transform` are borrowed.
  PipelineEngine(const RequestColumns& columns, const FeatureTransform& transform,
                 std::unique_ptr<Predictor> predictor, int threads);

 protected:
  void compute(std::span<EngineTask> tasks, EngineTimes& times) override;

 private:
  // Reads the requests into batch_; false when one of them has bad rows.
  bool read(std::span<EngineTask> tasks);
  void answer(std::span<EngineTask> tasks);
  void run_one_by_one(std::span<EngineTask> tasks, EngineTimes& times);

  const RequestColumns& columns_;
  const FeatureTransform& transform_;
  std::unique_ptr<ThreadPool> threads_;
  Context context_;
  std::unique_ptr<Predictor> predictor_;
  DecodedPiece piece_;
  Batch batch_;
  Feed feed_;
  std::vector<float> probabilities_;
};

}  // namespace emblem
