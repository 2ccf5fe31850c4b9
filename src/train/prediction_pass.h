// train/prediction_pass.h - a model over the rows of a data set.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "data/loader/loader.h"
#include "model/model.h"
#include "train/world.h"

namespace emblem {

// What a pass over a data set found.
struct PredictionPass {
  int64_t rows = 0;  // bad ones not included
  int64_t bad_rows = 0;
  std::vector<FeatureLookups> lookups;
};

// Gets a batch and the logits of each head, [rows, logits of the head], in host memory. Bad rows
// are in the batches, in their place, and marked in Batch::bad; their logits mean nothing.
using TakePredictions =
    std::function<void(const Batch&, const std::vector<View<const float>>& logits)>;

// Runs the model over a data set and calls `take` batch by batch. Shows progress on stderr under
// `title`. Nothing when it was interrupted before the end.
std::optional<PredictionPass> for_each_prediction(const Context& context, Model& model,
                                                  const config::PipelineConfig& config,
                                                  const FeatureLayout& layout,
                                                  const LoaderOptions& options,
                                                  const std::string& title,
                                                  const TakePredictions& take);

// The number of a shard of this rank, counted from its first one, and a batch of it.
using TakeShardPredictions =
    std::function<void(size_t own_shard, const Batch&, const std::vector<View<const float>>&)>;

// The same by all ranks together, of which all must call it: each runs the model over the streams
// of its shards (`options` is that of every stream). What is returned is that of this rank's
// shards; nothing on all ranks when one was interrupted. Rank 0 shows progress. `after_round`,
// where given, is called by all ranks together, each time after those that have a batch left have
// taken one.
std::optional<PredictionPass> for_each_shard_prediction(
    const Context& context, Model& model, const config::PipelineConfig& config,
    const FeatureLayout& layout, const LoaderOptions& options, const std::string& title,
    const World& world, const TakeShardPredictions& take,
    const std::function<void()>& after_round = nullptr);

}  // namespace emblem
