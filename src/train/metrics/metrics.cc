#include "train/metrics/metrics.h"

#include <bit>
#include <cmath>

#include "config/metrics.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using config::MetricConfig;

void check_finite(std::span<const float> values, const char* what) {
  // One pass without branches, as this runs over every row of every batch: an exponent of all ones
  // means NaN or infinity.
  uint32_t bad = 0;
  for (const float value : values)
    bad |= (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u;
  if (bad == 0) return;
  for (size_t row = 0; row < values.size(); ++row) {
    EMBLEM_REQUIRE(
        std::isfinite(values[row]), "the ", what, " of row ", row, " of the batch is ", values[row],
        ", but metrics need finite numbers (has the model diverged? try a lower learning rate)");
  }
}

void check_length(size_t length, const char* what, size_t rows) {
  EMBLEM_REQUIRE(length == rows, "metrics got ", length, " ", what, " for ", rows, " predictions");
}

std::unique_ptr<Metric> make_metric(const MetricConfig& metric, const std::string& name) {
  switch (metric.metric_case()) {
    case MetricConfig::kAuc: {
      const uint32_t thresholds = metric.auc().thresholds();
      return thresholds == 0 ? make_exact_auc(name) : make_binned_auc(thresholds, name);
    }
    case MetricConfig::kGroupedAuc:
      return make_grouped_auc();
    case MetricConfig::kMeanAbsoluteError:
      return make_mean_absolute_error();
    case MetricConfig::kMeanSquaredError:
      return make_mean_squared_error();
    case MetricConfig::kAccuracy:
      return make_accuracy(metric.accuracy().threshold());
    case MetricConfig::kNormalizedEntropy:
      return make_normalized_entropy(metric.normalized_entropy().eta());
    case MetricConfig::kLogLoss:
      return make_log_loss();
    case MetricConfig::kCalibration:
      return make_calibration();
    case MetricConfig::kMeanLabel:
      return make_mean_label();
    case MetricConfig::kMeanPrediction:
      return make_mean_prediction();
    case MetricConfig::kRecallAtK:
      throw Error(ErrorCode::kInvalidArgument,
                  "metric recall_at_k ranks the candidates of one query, but this model scores "
                  "single rows; use grouped_auc with a grouping_key instead");
    case MetricConfig::METRIC_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kInternal, cat("metric ", name, " is not implemented"));
}

}  // namespace

void Metric::add(const MetricBatch& batch) {
  const size_t rows = batch.predictions.size();
  check_length(batch.labels.size(), "labels", rows);
  if (!batch.logits.empty()) check_length(batch.logits.size(), "logits", rows);
  if (!batch.weights.empty()) check_length(batch.weights.size(), "weights", rows);
  if (!batch.groups.empty()) check_length(batch.groups.size(), "group keys", rows);
  check_finite(batch.predictions, "prediction");
  check_finite(batch.labels, "label");
  check_finite(batch.logits, "logit");
  check_finite(batch.weights, "weight");
  for (const float weight : batch.weights) {
    EMBLEM_REQUIRE(weight >= 0.0f, "a sample weight is ", weight,
                   ", but weights must not be negative");
  }
  check(batch);
  accumulate(batch);
}

std::vector<std::unique_ptr<Metric>> make_metrics(const config::ModelConfig& model) {
  std::vector<std::unique_ptr<Metric>> metrics;
  if (model.metrics().empty()) {
    metrics.push_back(make_exact_auc());
    metrics.push_back(make_log_loss());
    return metrics;
  }
  grouping_key(model);  // throws when two metrics group differently
  const std::vector<std::string> names = metric_names(model);
  for (int i = 0; i < model.metrics_size(); ++i)
    metrics.push_back(make_metric(model.metrics(i), names[i]));
  return metrics;
}

std::optional<std::string> grouping_key(const config::ModelConfig& model) {
  std::optional<std::string> key;
  for (const MetricConfig& one : model.metrics()) {
    if (!one.has_grouped_auc()) continue;
    const std::string& wanted = one.grouped_auc().grouping_key();
    EMBLEM_REQUIRE(!wanted.empty(),
                   "metric grouped_auc has no grouping_key; name an id feature to group by");
    EMBLEM_REQUIRE(!key || *key == wanted, "metrics group by ", *key, " and by ", wanted,
                   ", but all of a model's metrics must group by one feature");
    key = wanted;
  }
  return key;
}

}  // namespace emblem
