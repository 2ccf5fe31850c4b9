// train/run_state.h - a whole training run as a checkpoint, and back.
#pragma once

#include <map>
#include <string>

#include "config/pipeline.pb.h"
#include "data/batch.h"
#include "train/early_stopping.h"
#include "train/learner.h"

namespace emblem {

// What a run knows beside its learner.
struct RunState {
  DataPosition position;  // of the next batch
  EarlyStoppingState early_stopping;
  std::map<std::string, double> metrics;  // of the last evaluation
  int64_t deltas = 0;                     // number of the last delta
};

// Writes model_dir/model.ckpt-STEP and returns its path. Nothing is left behind when it fails, and
// older checkpoints stay; beyond `keep` (0: all) the oldest are removed, except the one of
// `best_step`.
std::string save_run(const std::string& model_dir, Learner& learner, const RunState& state,
                     const config::PipelineConfig& config, int64_t keep, int64_t best_step);

// kContinue restores everything; kWeights what forward needs, for evaluation and prediction.
enum class Restore { kContinue, kWeights };

// Verifies the checkpoint and fills the learner from it. Throws when it is damaged or belongs to
// another model: which table or parameter differs, and how.
RunState load_run(const std::string& checkpoint, Learner& learner, Restore restore);

}  // namespace emblem
