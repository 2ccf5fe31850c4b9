#include "train/run/intervals.h"

#include <algorithm>

#include "config/load/evaluation_input.h"

namespace emblem {
namespace {

bool every(int64_t count, int64_t interval) { return interval > 0 && count % interval == 0; }

// Whether a multiple of `interval` is in (from, to].
bool passes_multiple(int64_t from, int64_t to, int64_t interval) {
  return interval > 0 && from > 0 && to / interval > from / interval;
}

}  // namespace

Intervals::Intervals(const config::PipelineConfig& config, int64_t max_steps)
    : train_(config.train_config()),
      evaluates_(!evaluation_input(config).empty()),
      max_steps_(max_steps > 0 ? max_steps : train_.num_steps()) {}

StepEnd end_of(const Batch& batch) {
  return {batch.last_in_epoch, batch.next.epoch, batch.unix_ms};
}

Due Intervals::after(int64_t step, const StepEnd& end, int64_t stream_unix_ms) const {
  const auto at_epoch = [&](int64_t interval) {
    return end.last_in_epoch && every(end.next_epoch, interval);
  };
  Due due;
  due.log = every(step, std::max(1u, train_.log_step_count_steps()));
  // As in TorchEasyRec, save_checkpoints_epochs replaces the default of save_checkpoints_steps.
  const bool by_steps =
      train_.save_checkpoints_epochs() == 0 || train_.has_save_checkpoints_steps();
  due.checkpoint = (by_steps && every(step, train_.save_checkpoints_steps())) ||
                   at_epoch(train_.save_checkpoints_epochs()) ||
                   passes_multiple(stream_unix_ms, end.unix_ms,
                                   1000 * int64_t{train_.save_checkpoints_timestamp_interval()});
  const bool own_interval = train_.eval_steps() > 0 || train_.eval_epochs() > 0;
  due.evaluation = evaluates_ && (own_interval ? every(step, train_.eval_steps()) ||
                                                     at_epoch(train_.eval_epochs())
                                               : due.checkpoint);
  due.delta = every(step, train_.delta_steps());
  return due;
}

bool Intervals::ends_after(int64_t step, const StepEnd& end) const {
  if (max_steps_ > 0 && step >= max_steps_) return true;
  return train_.num_epochs() > 0 && end.last_in_epoch && end.next_epoch >= train_.num_epochs();
}

int64_t Intervals::steps_left(int64_t step) const {
  return max_steps_ > 0 ? std::max<int64_t>(max_steps_ - step, 0) : -1;
}

}  // namespace emblem
