// train/predict/prediction_pass.h - a model over the rows of a data set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "data/loader/loader.h"
#include "model/model.h"
#include "train/predict/pass_watch.h"
#include "train/run/world.h"

namespace emblem {

// What a pass over a data set found.
struct PredictionPass {
  int64_t rows = 0;  // bad ones not included
  int64_t bad_rows = 0;
  std::vector<FeatureLookups> lookups;
};

// Gets the number of a shard of this rank, counted from its first one, a batch of it and the logits
// of each head, [rows, logits of the head], in host memory. Bad rows are in the batches, in their
// place, and marked in Batch::bad; their logits mean nothing.
using TakePredictions = std::function<void(size_t own_shard, const Batch&,
                                           const std::vector<View<const float>>& logits)>;

// Runs the model over a data set and calls `take` batch by batch. All ranks of `world` call it
// together: each runs the model over the streams of its shards (`options` is that of every stream),
// and what is returned is that of this rank's shards; nothing on all ranks when one was cancelled
// before the end. `after_round`, where given, is called by all ranks together, each time after
// those that have a batch left have taken one.
std::optional<PredictionPass> for_each_prediction(
    const Context& context, Model& model, const config::PipelineConfig& config,
    const FeatureLayout& layout, const LoaderOptions& options, const World& world,
    const PassWatch& watch, const TakePredictions& take,
    const std::function<void()>& after_round = nullptr);

// The sum over all ranks, on all of them. Collective. Throws CommonError where they have more bad
// rows than `options` allows.
PredictionPass sum_passes(const World& world, const PredictionPass& mine,
                          const LoaderOptions& options);

}  // namespace emblem
