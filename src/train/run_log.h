// train/run_log.h - what a run reports while it trains: train_log.jsonl, train_eval_result.jsonl
// and TensorBoard's event file in its model dir.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/results.h"
#include "config/train.pb.h"
#include "train/event_file.h"

namespace emblem {

struct StepReport {
  int64_t step = 0, epoch = 0;
  double loss = 0.0;
  double gradient_norm = 0.0;  // 0: not known
  double samples_per_second = 0.0;
  double sparse_rate = 0.0, dense_rate = 0.0;
  int64_t skipped_steps = 0;                  // of the run so far, whose gradients overflowed
  std::map<std::string, double> losses;       // summands of the loss; empty where there is one
  std::map<std::string, double> metrics;      // of training (train/train_metrics.h)
  std::map<std::string, double> stream;       // how far it is ahead; empty without one
  std::map<std::string, double> progressive;  // of a window that has ended (train/progressive.h)
};

// Thread-compatible. Every function throws Error when its line cannot be written.
class RunLog {
 public:
  // Continues the files of a run after `step` (0: a new run); later lines are dropped.
  RunLog(const std::string& model_dir, const config::TrainConfig& train, int64_t step);

  void add_step(const StepReport& report);
  int64_t last_step() const { return last_step_; }  // of add_step; -1: none

  void add_evaluation(int64_t step, int64_t epoch, const std::map<std::string, double>& metrics);
  // The result of a run that ended with the weights of an earlier step.
  void add_restored(int64_t step, int64_t epoch, int64_t restored_step,
                    const std::map<std::string, double>& metrics);

 private:
  Results evaluations_, steps_;
  std::optional<EventFile> events_;
  int64_t last_step_ = -1;
};

}  // namespace emblem
