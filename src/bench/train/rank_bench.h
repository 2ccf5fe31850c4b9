// bench/train/rank_bench.h - training steps of several ranks, threads of this process that share
// its device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/train/input.h"
#include "bench/train/train_bench.h"
#include "config/features.h"

namespace emblem {

struct RankSteps {
  std::vector<double> seconds;  // of each step
  double total_seconds = 0.0;
  double first_loss = 0.0, last_loss = 0.0;
};

// `input` makes the batches of a rank, each of `rows` rows. Runs at least the steps and seconds of
// the options. One rank runs the same code: its difference to a training without ranks is what
// sharding costs.
using MakeRankInput = std::function<std::unique_ptr<TrainInput>(const Context&, int rank)>;
RankSteps measure_ranks(const Context& context, const config::PipelineConfig& config,
                        const FeatureLayout& layout, int ranks, int64_t rows,
                        const TrainBenchOptions& options, const MakeRankInput& input);

}  // namespace emblem
