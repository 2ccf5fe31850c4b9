// train/metrics/metrics.h - how good predictions are. A metric is fed batch by batch and gives one
// number under one name; the same rows give the same number, whatever the batches were.
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/model.pb.h"
#include "emblem/error.h"

namespace emblem {

// What a metric says when it is not defined, like the AUC of rows that all have the same label.
inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// One entry a row in every span that is not empty.
struct MetricBatch {
  std::span<const float> predictions;  // probabilities where the metric needs them
  std::span<const float> labels;
  std::span<const float>
      logits;  // may be empty; makes losses exact where probabilities round to 0 or 1
  std::span<const float> weights;   // may be empty: all 1
  std::span<const int64_t> groups;  // may be empty unless a metric groups

  float weight(size_t row) const { return weights.empty() ? 1.0f : weights[row]; }
};

class Metric {
 public:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  virtual ~Metric() = default;

  const std::string& name() const { return name_; }

  // Throws Error when lengths differ, when anything is NaN or infinite, when a weight is negative,
  // or when the metric cannot use the values (a label that is neither 0 nor 1 for AUC); nothing is
  // added then.
  void add(const MetricBatch& batch);

  // Of all rows added so far; kUndefined when there is no such number. More rows may follow.
  virtual double value() = 0;

  // Takes over the rows of `other`, made with the same settings, as if they had been added here.
  virtual void merge(const Metric& other) = 0;

 protected:
  virtual void check(const MetricBatch& batch) const { (void)batch; }
  virtual void accumulate(const MetricBatch& batch) = 0;

  // `other` as the caller's own class, for merge().
  template <class Self>
  const Self& same_kind(const Metric& other) const {
    const auto* self = dynamic_cast<const Self*>(&other);
    EMBLEM_REQUIRE(self != nullptr, "cannot merge metric ", other.name(), " into ", name(),
                   ": they are of different kinds");
    return *self;
  }

 private:
  std::string name_;
};

// The metrics that the configuration lists, or exact AUC and log loss when it lists none, named as
// in metric_names (config/metrics.h).
std::vector<std::unique_ptr<Metric>> make_metrics(const config::ModelConfig& model);

// The feature whose keys group rows (MetricBatch::groups), when a configured metric groups.
std::optional<std::string> grouping_key(const config::ModelConfig& model);

// Exact AUC: the chance that a positive row scores above a negative one, ties counting one half.
// Scores may be any finite numbers. Keeps 8 bytes a row.
std::unique_ptr<Metric> make_exact_auc(std::string name = "auc");

// AUC from counts at `thresholds` >= 2 evenly spaced probabilities in [0, 1]: constant memory, and
// the figure that TorchEasyRec (200 thresholds) and SOK (8000) report.
std::unique_ptr<Metric> make_binned_auc(int64_t thresholds, std::string name = "auc");
// The thresholds themselves, ascending from 0 to 1. A score falls into the bin of the highest
// threshold that it reaches.
std::vector<float> auc_thresholds(int64_t count);

// The plain mean, over the groups that have both labels, of the exact AUC within each. Keeps 16
// bytes a row.
std::unique_ptr<Metric> make_grouped_auc(std::string name = "grouped_auc");

// Means over rows, weighted by MetricBatch::weights. Log loss is in nats; accuracy counts a row as
// predicted positive when its prediction is above `threshold`.
std::unique_ptr<Metric> make_log_loss();
std::unique_ptr<Metric> make_mean_absolute_error();
std::unique_ptr<Metric> make_mean_squared_error();
std::unique_ptr<Metric> make_accuracy(float threshold);
std::unique_ptr<Metric> make_mean_label();
std::unique_ptr<Metric> make_mean_prediction();

// Log loss divided by the log loss of always predicting the mean label: 1 is no better than that.
// `eta` keeps probabilities away from 0 and 1 where no logits are given. Undefined when all labels
// are equal.
std::unique_ptr<Metric> make_normalized_entropy(double eta);

// Mean prediction / mean label: above 1 is overconfident. Undefined when the mean label is 0.
std::unique_ptr<Metric> make_calibration();

}  // namespace emblem
