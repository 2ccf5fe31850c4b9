// train/report/run_log.h - what a run reports while it trains: train_log.jsonl,
// train_eval_result.jsonl and TensorBoard's event file in its model dir.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/results.h"
#include "config/proto/train.pb.h"
#include "train/report/event_file.h"
#include "train/run/train_callbacks.h"

namespace emblem {

// Thread-compatible. Every function throws Error when its line cannot be written.
class RunLog {
 public:
  // Continues the files of a run after `step` (0: a new run); later lines are dropped.
  RunLog(const std::string& model_dir, const config::TrainConfig& train, int64_t step);

  void add_step(const StepReport& report);

  void add_evaluation(int64_t step, int64_t epoch, const std::map<std::string, double>& metrics);
  // The result of a run that ended with the weights of an earlier step.
  void add_restored(int64_t step, int64_t epoch, int64_t restored_step,
                    const std::map<std::string, double>& metrics);

 private:
  Results evaluations_, steps_;
  std::optional<EventFile> events_;
};

}  // namespace emblem
