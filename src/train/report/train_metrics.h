// train/report/train_metrics.h - metrics of the batches that a model learns, as they were predicted
// before the step: train_metrics of the configuration.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/feature/heads.h"
#include "core/memory/view.h"
#include "data/batch.h"
#include "train/metrics/head_metrics.h"

namespace emblem {

// Every decay_step steps a value moves to that of these steps: value <- decay_rate * value + (1 -
// decay_rate) * new value; for auc the counts at its thresholds move instead. The first time it is
// the new value. A resumed run begins again. Used by one thread.
class TrainMetrics {
 public:
  // Throws Error for a metric that cannot be computed in training.
  explicit TrainMetrics(const std::vector<HeadSpec>& heads);

  bool empty() const { return metrics_.empty(); }

  // The logits of each head.
  void add(const Batch& batch, const std::vector<View<const float>>& logits);

  // Values by name: METRIC or METRIC_TOWER. Only those that have a value yet.
  std::map<std::string, double> values() const;

 private:
  struct Decayed {
    size_t head;
    std::unique_ptr<Metric> recent;  // counts of the steps since the last move
    std::unique_ptr<Metric> counts;  // for auc: what has moved; else null
    config::TrainMetricConfig settings;
    int64_t steps;
    double value;  // NaN: none yet
    HeadSpec spec;
  };
  void move(Decayed& metric);

  std::vector<HeadRows> rows_;  // by head
  std::vector<Decayed> metrics_;
};

}  // namespace emblem
