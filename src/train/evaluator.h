// train/evaluator.h - the evaluations of a run: runs and reports them, and adds up what they cost.
#pragma once

#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "train/evaluation.h"
#include "train/learner.h"
#include "train/run_clock.h"
#include "train/run_log.h"

namespace emblem {

// Used by one thread.
class Evaluator {
 public:
  // All of them must outlive this. `memory` is for batches; null: the heap. `storage`: as
  // LoaderOptions::storage. Without `log` nothing is reported: another rank does.
  Evaluator(const config::PipelineConfig& config, const FeatureLayout& layout, Learner& learner,
            RunLog* log, RunClock& clock, std::pmr::memory_resource* memory, Storage storage);

  // Evaluates the weights that the learner has now. False when it was interrupted: then it has not
  // taken place.
  bool evaluate(int64_t epoch);

  // The learner has the weights of `restored_step` again, of which these are the metrics.
  void take_restored(int64_t epoch, int64_t restored_step,
                     const std::map<std::string, double>& metrics);

  // Of the learner's present step; nothing when it was not evaluated.
  std::optional<Evaluation> current() const;

  int64_t count() const { return count_; }
  double seconds() const { return seconds_; }  // of all
  double last_seconds() const { return last_ ? last_->seconds : 0.0; }

 private:
  void report(const Evaluation& evaluation);
  // The model computes with the average, or with its own weights again.
  void swap(DenseAverage& average);

  const config::PipelineConfig config_;
  const FeatureLayout& layout_;
  Learner& learner_;
  RunLog* log_;
  RunClock& clock_;
  std::pmr::memory_resource* memory_;
  Storage storage_;
  std::optional<Evaluation> last_;
  std::string undefined_;              // the last warning about metrics without a value
  std::vector<std::string> reported_;  // features whose missing values were warned about
  int64_t last_step_ = -1;
  int64_t count_ = 0;
  double seconds_ = 0.0;
};

}  // namespace emblem
