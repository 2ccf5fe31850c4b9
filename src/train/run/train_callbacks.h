// train/run/train_callbacks.h - what a training run tells the program that runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "train/predict/evaluation.h"
#include "train/predict/progressive.h"

namespace emblem {

// A step that was learned.
struct StepReport {
  int64_t step = 0, epoch = 0;
  int64_t rows = 0;           // rows that the run has learned so far
  int64_t expected_rows = 0;  // rows that it will learn in all, about; 0: not known
  bool is_due = false;        // it is one of every log_step_count_steps, or the last
  double loss = 0.0;
  double gradient_norm = 0.0;       // 0: not known
  double samples_per_second = 0.0;  // since the last report that was due; in those only
  double sparse_rate = 0.0, dense_rate = 0.0;
  int64_t skipped_steps = 0;              // steps of the run so far whose gradients overflowed
  std::map<std::string, double> losses;   // summands of the loss; empty where there is one
  std::map<std::string, double> metrics;  // metrics of training (train/report/train_metrics.h)
  std::map<std::string, double> stream;   // how far it is ahead; empty without one
  // Values of a window that has ended (train/predict/progressive.h).
  std::map<std::string, double> progressive;
};

// An evaluation of the weights after a step.
struct EvaluationReport {
  int64_t step = 0, epoch = 0;
  const Evaluation& evaluation;
  // The weights are those of this earlier step again, of which these were the metrics.
  std::optional<int64_t> restored_step;
};

// A window of progressive validation, which ends before a step is learned.
struct ValidationReport {
  int64_t step = 0;  // the last one that was learned
  const ProgressiveValidation::Window& window;
  const StreamLag& lag;
};

// Each may be empty. They are called by the thread that trains, of several ranks on rank 0 alone.
struct TrainCallbacks {
  std::function<void(const StepReport&)> step;
  std::function<void(const EvaluationReport&)> evaluation;
  std::function<void(const ValidationReport&)> validation;
  // Checkpoints or deltas were written, or the metrics of a checkpoint.
  std::function<void(const std::string& latest)> checkpoint;
  std::function<void(const std::string& text)> warning;
  std::function<void(const PassProgress&)> evaluating;  // an evaluation is under way
};

}  // namespace emblem
