// train/report/run_report.h - a training run as a program shows it: a progress bar, lines of the
// log, and files with results.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/results.h"
#include "config/proto/train.pb.h"
#include "core/system/progress.h"
#include "train/report/event_file.h"
#include "train/run/trainer.h"

namespace emblem {

// The files of a run: train_log.jsonl, train_eval_result.jsonl and TensorBoard's event file in its
// model dir. Thread-compatible. Every function throws Error when its line cannot be written.
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

// Shows what the callbacks of a run report, and writes it into its model dir. Used by one thread.
class RunReport {
 public:
  RunReport() = default;
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;

  // Sets all callbacks but `checkpoint`; they may be called while this exists.
  void watch(TrainCallbacks& callbacks);
  // Called when the run is open: nothing is written before.
  void begin(const Trainer& trainer);
  // Called after its last step.
  void end_steps(const Trainer& trainer);

 private:
  void show(const StepReport& report);
  void show(const EvaluationReport& report);
  void show(const ValidationReport& report);
  // Clears the bar, so that a line can be printed.
  void interrupt_bar();

  std::optional<RunLog> log_;  // on the rank that writes
  std::optional<Progress> bar_;
  bool is_evaluating_ = false;  // another bar is on the line
  std::string label_positive_;
  std::string undefined_;              // the last warning about metrics without a value
  std::vector<std::string> reported_;  // features whose missing values were warned about
};

// Trains to the end, with such a report. `options.callbacks` may have `checkpoint` alone. Calls
// `saved` when all is written, before the data are closed.
TrainSummary train(const Context& context, const config::PipelineConfig& config,
                   const TrainOptions& options,
                   const std::function<void(const TrainSummary&)>& saved = {});

}  // namespace emblem
