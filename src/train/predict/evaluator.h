// train/predict/evaluator.h - the evaluations of a run: runs them and adds up what they cost.
#pragma once

#include <map>
#include <memory_resource>
#include <optional>
#include <string>

#include "train/learner/learner.h"
#include "train/report/run_clock.h"
#include "train/run/train_options.h"

namespace emblem {

// Used by one thread.
class Evaluator {
 public:
  // All of them must outlive this. `memory` is for batches; null: the heap. The options have the
  // storage, the token that cancels, and who gets reports.
  Evaluator(const config::PipelineConfig& config, const FeatureLayout& layout, Learner& learner,
            RunClock& clock, std::pmr::memory_resource* memory, const TrainOptions& options);

  // Evaluates the weights that the learner has now. False when it was cancelled: then it has not
  // taken place.
  bool evaluate(int64_t epoch);

  // Lets the own metrics compute values of one batch, which are not kept: what fails, fails before
  // the run.
  void try_own_metrics();

  // The learner has the weights of `restored_step` again, of which these are the metrics.
  void take_restored(int64_t epoch, int64_t restored_step,
                     const std::map<std::string, double>& metrics);

  // The evaluation of the learner's present step; nothing when it was not evaluated.
  std::optional<Evaluation> current() const;

  int64_t count() const { return count_; }
  double seconds() const { return seconds_; }  // time of all evaluations
  double last_seconds() const { return last_ ? last_->seconds : 0.0; }

 private:
  std::optional<Evaluation> run(const config::PipelineConfig& config);
  void report(int64_t epoch, std::optional<int64_t> restored_step);
  // The model computes with the average, or with its own weights again.
  void swap(DenseAverage& average);

  const config::PipelineConfig config_;
  const FeatureLayout& layout_;
  Learner& learner_;
  RunClock& clock_;
  std::pmr::memory_resource* memory_;
  const TrainOptions& options_;
  std::optional<Evaluation> last_;
  int64_t last_step_ = -1;
  int64_t count_ = 0;
  double seconds_ = 0.0;
};

}  // namespace emblem
