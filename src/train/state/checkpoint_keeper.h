// train/state/checkpoint_keeper.h - which checkpoints and deltas of a run are in its model dir.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "config/proto/pipeline.pb.h"
#include "train/learner/learner.h"
#include "train/report/run_clock.h"
#include "train/state/delta_export.h"
#include "train/state/run_state.h"

namespace emblem {

// Writes them, and removes those that keep_checkpoint_max and early_stopping.restore_best no longer
// need. Every function that takes a state adds what it has written to it. Used by one thread.
class CheckpointKeeper {
 public:
  // `config`, `learner` and `clock` must outlive this. `resumed` is the checkpoint that learner and
  // state come from; empty: a new run.
  CheckpointKeeper(const config::PipelineConfig& config, Learner& learner, RunClock& clock,
                   const RunState& state, std::string resumed);

  // Writes a checkpoint of this step, unless there is one. A delta comes first: a checkpoint says
  // how far servers are that follow the training.
  void save(RunState& state);
  // Called after other weights were loaded at this step: replaces its checkpoint, if there is
  // one.
  void save_restored(RunState& state);
  // For restore_best, after an evaluation that was the best so far: keeps a checkpoint of this step
  // until there is a better one.
  void save_best(RunState& state);
  // Called after an evaluation: stores its outcome in the checkpoint of this step, if there is
  // one.
  void update(const RunState& state);

  // Writes a delta of this step, unless there is one, where the configuration asks for deltas.
  void write_delta(RunState& state);

  // Whether a checkpoint of this step was written, or resumed from.
  bool is_saved() const { return saved_step_ == learner_.steps(); }
  const std::string& latest() const { return latest_; }  // its path; empty: none yet

 private:
  void write(RunState& state);
  void remove_old(const RunState& state);

  const config::PipelineConfig& config_;
  const StoredPipeline stored_;
  Learner& learner_;
  RunClock& clock_;
  std::optional<DeltaExport> deltas_;
  std::set<int64_t> only_best_;  // steps of checkpoints that are for restore_best alone
  int64_t saved_step_ = -1, delta_step_ = -1;
  std::string latest_;
};

}  // namespace emblem
