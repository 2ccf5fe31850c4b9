// train/report/run_report.h - a training run as a program shows it: a progress bar, lines of the
// log, and files with results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/system/progress.h"
#include "train/report/run_log.h"
#include "train/run/trainer.h"

namespace emblem {

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
