#include "train/state/checkpoint_keeper.h"

#include "checkpoint/checkpoint.h"
#include "emblem/error.h"
#include "train/run/rank_positions.h"

namespace emblem {
namespace {

// A damaged checkpoint is not ours to remove.
bool is_only_best(const CheckpointEntry& entry) {
  try {
    return read_manifest(entry.path).only_best;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

CheckpointKeeper::CheckpointKeeper(const config::PipelineConfig& config, Learner& learner,
                                   RunClock& clock, const RunState& state, std::string resumed)
    : config_(config),
      stored_(config),
      learner_(learner),
      clock_(clock),
      latest_(std::move(resumed)) {
  if (!latest_.empty()) saved_step_ = learner.steps();
  for (const CheckpointEntry& entry : list_checkpoints(config.model_dir()))
    if (is_only_best(entry)) only_best_.insert(entry.step);
  if (config.train_config().delta_steps() > 0)
    deltas_.emplace(config.model_dir() + "/deltas", learner.model().tables(), state.deltas,
                    learner.world());
}

void CheckpointKeeper::save(RunState& state) {
  if (!is_saved())
    write(state);
  else if (only_best_.erase(saved_step_) > 0)
    update(state);
}

void CheckpointKeeper::save_restored(RunState& state) {
  only_best_.erase(learner_.steps());
  delta_step_ = -1;
  write(state);
}

void CheckpointKeeper::save_best(RunState& state) {
  if (is_saved()) {
    update(state);
    if (learner_.world().writes()) remove_old(state);
    return;
  }
  only_best_.insert(learner_.steps());
  write(state);
}

void CheckpointKeeper::write(RunState& state) {
  write_delta(state);
  const RunClock::Pause pause(clock_, "checkpoint");
  state.only_best = only_best_.contains(learner_.steps());
  latest_ = save_run(config_.model_dir(), learner_, state, stored_);
  saved_step_ = learner_.steps();
  if (learner_.world().writes()) remove_old(state);
  if (deltas_ && learner_.world().writes())
    deltas_->remove_old(config_.model_dir(), config_.train_config());
}

void CheckpointKeeper::update(const RunState& state) {
  if (!is_saved() || !learner_.world().writes()) return;
  RunState now = state;
  now.only_best = only_best_.contains(saved_step_);
  update_run(latest_, learner_, now);
}

void CheckpointKeeper::remove_old(const RunState& state) {
  const config::TrainConfig& train = config_.train_config();
  const bool keeps_best = train.has_early_stopping() && train.early_stopping().restore_best() &&
                          state.early_stopping.has_best;
  const int64_t best = keeps_best ? state.early_stopping.best_step : -1;
  for (const CheckpointEntry& entry : list_checkpoints(config_.model_dir())) {
    const bool needed = entry.step == best || entry.step == saved_step_;
    if (needed || only_best_.erase(entry.step) == 0) continue;
    remove_checkpoint(config_.model_dir(), entry.step);
  }
  const int64_t spared[] = {saved_step_, best};
  prune_checkpoints(config_.model_dir(), train.keep_checkpoint_max(), spared);
}

void CheckpointKeeper::write_delta(RunState& state) {
  if (!deltas_ || delta_step_ == learner_.steps()) return;
  const RunClock::Pause pause(clock_, "delta");
  DeltaOrigin origin{.step_begin_unix_ms = state.step_begin_unix_ms,
                     .step_end_unix_ms = state.step_end_unix_ms};
  const StoredPositions positions =
      gather_positions(learner_.world(), state.positions, state.epoch);
  for (const StreamPosition& each : positions.all.stream)
    origin.stream_offsets.push_back(each.offset);
  state.deltas = deltas_->write(learner_.context(), origin);
  delta_step_ = learner_.steps();
}

}  // namespace emblem
