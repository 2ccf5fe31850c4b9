// train/run/step_watch.h - what a run measures of the batches that it learns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "train/learner/learner.h"
#include "train/predict/progressive.h"
#include "train/report/loss_watch.h"
#include "train/report/train_metrics.h"
#include "train/run/host_logits.h"
#include "train/run/shard_batches.h"

namespace emblem {

// Metrics of training, progressive validation, losses that explode, and values without a row. Used
// by one thread.
class StepWatch {
 public:
  // All of them must outlive this. Throws Error for a metric that cannot be computed.
  StepWatch(const config::PipelineConfig& config, const FeatureLayout& layout, Learner& learner);

  // Called before a step is learned. Returns the window of progressive validation that ends with
  // its rows; on rank 0. Collective.
  std::optional<ProgressiveValidation::Window> begin_step(const StepBatches& step);
  // Called after the forward pass of a shard with rows.
  void add(const Batch& batch);
  // Called after the step. A warning when the loss has exploded.
  std::optional<std::string> end_step(double loss);

  // Called after the last step: the window that is not full. Collective.
  std::optional<ProgressiveValidation::Window> end_validation() { return progressive_.finish(); }
  // A warning if no step had a loss.
  std::optional<std::string> end_losses() const { return losses_.end_run(); }

  std::map<std::string, double> metrics() const { return metrics_.values(); }
  // What may have made a loss explode.
  std::string advice() const { return losses_.advice(); }

  // Called before an evaluation, which discards what the model has counted.
  void count_lookups();
  // Values of the whole run and those without a row; after sum_lookups() of all ranks.
  const std::vector<FeatureLookups>& lookups() const { return lookups_; }
  void sum_lookups();

 private:
  Learner& learner_;
  LossWatch losses_;
  TrainMetrics metrics_;
  ProgressiveValidation progressive_;
  HostLogits logits_;
  std::vector<FeatureLookups> lookups_;
};

}  // namespace emblem
