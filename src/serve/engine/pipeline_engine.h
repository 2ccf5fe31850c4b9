// serve/engine/pipeline_engine.h - runs a trained model on requests: columns, features, lookup,
// layers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/feature/heads.h"
#include "core/threads/thread_pool.h"
#include "data/feature/transform.h"
#include "model/lookup/feed.h"
#include "model/predict/predictor.h"
#include "serve/engine/attention_limit.h"
#include "serve/engine/request_changes.h"
#include "serve/engine/request_columns.h"
#include "serve/engine/servable.h"

namespace emblem {

// What a model gives out, FP32 [rows, cols] each.
struct ServedOutputs {
  explicit ServedOutputs(const std::vector<HeadSpec>& heads);

  // The position in `all`; -1: there is none of that name.
  int64_t find(const std::string& name) const;
  // Calls body(position in `all`) for what the answer to a request consists of, in its order. The
  // names are known.
  template <class Body>
  void for_each_of(const InferRequest& request, Body&& body) const {
    for (const RequestedOutput& output : request.outputs)
      body(static_cast<size_t>(find(output.name)));
    if (!request.outputs.empty()) return;
    for (const size_t position : defaults) body(position);
  }

  std::vector<OutputSpec> all;   // what requests may name
  std::vector<size_t> defaults;  // what a request that names none gets
};

// Allocates nothing per batch once it has seen batches of the size.
class PipelineEngine final : public Engine {
 public:
  using MakePredictor = std::function<std::unique_ptr<Predictor>()>;

  // `columns`, `transform`, `changes`, `limit` and `outputs` are borrowed. `renew` makes another
  // predictor in the place of one whose buffers are to be freed; null: they stay.
  PipelineEngine(const RequestColumns& columns, const FeatureTransform& transform,
                 const RequestChanges& changes, const AttentionLimit& limit,
                 const ServedOutputs& outputs, std::unique_ptr<Predictor> predictor, int threads,
                 MakePredictor renew = nullptr);

 protected:
  void compute(std::span<EngineTask> tasks, EngineTimes& times) override;
  void release() override;

 private:
  // Reads the requests into batch_; false when one of them has bad rows.
  bool read(std::span<EngineTask> tasks);
  // The outputs that any of the requests asks for.
  void predict(std::span<EngineTask> tasks);
  void answer(std::span<EngineTask> tasks);
  void run_one_by_one(std::span<EngineTask> tasks, EngineTimes& times);

  const RequestColumns& columns_;
  const FeatureTransform& transform_;
  const RequestChanges& changes_;
  const AttentionLimit& limit_;
  const ServedOutputs& outputs_;
  std::unique_ptr<ThreadPool> threads_;
  Context context_;
  std::unique_ptr<Predictor> predictor_;
  const MakePredictor renew_;
  DecodedPiece piece_;
  Batch batch_;
  Feed feed_;
  // Values of the batch, by position in outputs_.all; empty where it was not requested.
  std::vector<std::vector<float>> values_;
  std::vector<PredictedOutput> wanted_;
};

}  // namespace emblem
