// train/rank_evaluation.h - an evaluation by several ranks. Internal to train: evaluate() of
// train/evaluation.h calls it.
#pragma once

#include "train/evaluation.h"

namespace emblem {

// Every rank evaluates the streams of its shards. Rank 0 merges their metrics in the order of
// shards, so that the result depends on the number of shards and not on that of ranks; all ranks
// return it. Throws where the shards together have more bad rows than `options` allows.
std::optional<Evaluation> evaluate_shards(const Context& context, Model& model,
                                          const config::PipelineConfig& config,
                                          const FeatureLayout& layout, const LoaderOptions& options,
                                          const World& world);

}  // namespace emblem
