// train/state/run_state.h - a whole training run as a checkpoint, and back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "config/load/assets.h"
#include "config/proto/pipeline.pb.h"
#include "data/batch.h"
#include "train/learner/learner.h"
#include "train/run/early_stopping.h"

namespace emblem {

// What a run knows besides its learner.
struct RunState {
  int64_t epoch = 0;  // epoch of the next step: that of the shard that is furthest behind
  // Positions of the next batch of each shard of this rank.
  std::vector<DataPosition> positions = std::vector<DataPosition>(1);
  EarlyStoppingState early_stopping;
  bool evaluation_due = false;            // at this step, but it has not taken place
  bool only_best = false;                 // the checkpoint is for early_stopping.restore_best alone
  std::map<std::string, double> metrics;  // metrics of the last evaluation
  int64_t deltas = 0;                     // number of the last delta
  std::optional<InputFiles> input_files;  // that the positions are places in
  std::optional<InputFiles> sampler_files;
  // Times of the last step; not in checkpoints.
  int64_t step_begin_unix_ms = 0, step_end_unix_ms = 0;
};

// The configuration of a run with the files that its features read, as they are when this is made:
// checkpoints have copies of them.
struct StoredPipeline {
  StoredPipeline(config::PipelineConfig given)  // NOLINT: a configuration is stored as it is
      : config(std::move(given)), assets(take_assets(&config)) {}

  config::PipelineConfig config;
  std::vector<Asset> assets;
};

// Writes model_dir/model.ckpt-STEP, in the place of an older one of this step, and returns its
// path. When it fails, nothing of it remains. Several ranks call it together: each writes the rows
// it has, into a folder that all of them see.
std::string save_run(const std::string& model_dir, Learner& learner, const RunState& state,
                     const StoredPipeline& pipeline);

// Stores what an evaluation has changed since save_run at this step (metrics, early stopping,
// schedules) in that checkpoint, atomically.
void update_run(const std::string& checkpoint, Learner& learner, const RunState& state);

// Verifies the checkpoint and fills the learner from it. Throws when it is damaged or belongs to
// another model: which table or parameter differs, and how.
RunState load_run(const std::string& checkpoint, Learner& learner);

// The same for evaluation and prediction: only the weights that forward needs, without optimizer
// state; kAverage: the moving average of the dense ones. Returns the step of the checkpoint.
enum class DenseWeights { kTrained, kAverage };
int64_t load_model(const std::string& checkpoint, const Context& context, Model& model,
                   DenseWeights weights = DenseWeights::kTrained);
// Weights of an evaluation: the average where there is one, unless the configuration says
// otherwise.
DenseWeights evaluated_weights(const config::PipelineConfig& config);

// Names within a checkpoint.
inline constexpr const char* kDenseFile = "dense.safetensors";
inline constexpr const char* kConfigFile = "pipeline.config";

// "16 x 4"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace emblem
