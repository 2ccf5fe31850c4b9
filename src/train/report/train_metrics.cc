#include "train/report/train_metrics.h"

#include <cmath>

#include "config/feature/metrics.h"
#include "emblem/error.h"
#include "metric/kinds.h"

namespace emblem {
namespace {

// The same settings, as evaluations have them.
config::MetricConfig metric_of(const config::TrainMetricConfig& settings) {
  const auto* field = settings.GetDescriptor()->FindFieldByNumber(settings.metric_case());
  EMBLEM_REQUIRE(field != nullptr,
                 "an entry of train_metrics names no metric; set one of auc, accuracy, xauc, "
                 "mean_absolute_error, mean_squared_error");
  config::MetricConfig metric;
  const auto* same = metric.GetDescriptor()->FindFieldByNumber(field->number());
  metric.GetReflection()
      ->MutableMessage(&metric, same)
      ->CopyFrom(settings.GetReflection()->GetMessage(settings, field));
  return metric;
}

void check(const config::TrainMetricConfig& settings) {
  EMBLEM_REQUIRE(settings.decay_rate() >= 0.0f && settings.decay_rate() < 1.0f,
                 "train_metrics.decay_rate is ", settings.decay_rate(),
                 ", but must be at least 0 and below 1");
  EMBLEM_REQUIRE(settings.decay_step() > 0, "train_metrics.decay_step is 0, but must be above 0");
  EMBLEM_REQUIRE(!settings.has_auc() || settings.auc().thresholds() > 0,
                 "train_metrics.auc has thresholds: 0, but the exact AUC keeps all rows of "
                 "training; give a number of thresholds");
}

}  // namespace

TrainMetrics::TrainMetrics(const std::vector<HeadSpec>& heads) {
  for (size_t head = 0; head < heads.size(); ++head) {
    rows_.emplace_back(heads[head]);
    HeadSpec listed = heads[head];  // for names as those of evaluations
    listed.metrics.clear();
    listed.losses.clear();
    for (const config::TrainMetricConfig& settings : heads[head].train_metrics) {
      check(settings);
      listed.metrics.push_back(metric_of(settings));
    }
    if (listed.metrics.empty()) continue;
    const std::vector<std::string> names = metric_names(listed);
    for (size_t i = 0; i < listed.metrics.size(); ++i) {
      const auto make = [&] { return make_metric(listed.metrics[i], measured(listed), names[i]); };
      auto recent = make();
      auto counts = recent->has_counts() ? make() : nullptr;
      metrics_.push_back({head, std::move(recent), std::move(counts), heads[head].train_metrics[i],
                          0, kUndefined, listed});
    }
  }
}

void TrainMetrics::add(const Batch& batch, const std::vector<View<const float>>& logits) {
  for (Decayed& metric : metrics_) {
    metric.recent->add(rows_[metric.head].of(batch, logits[metric.head]));
    if (++metric.steps % metric.settings.decay_step() == 0) move(metric);
  }
}

void TrainMetrics::move(Decayed& metric) {
  const double keep = metric.settings.decay_rate();
  if (metric.counts != nullptr) {
    const bool first = metric.steps == metric.settings.decay_step();
    if (!first) {
      metric.counts->scale(keep);
      metric.recent->scale(1.0 - keep);
    }
    metric.counts->merge(*metric.recent);
    metric.value = metric.counts->value();
  } else if (const double value = metric.recent->value(); !std::isnan(value)) {
    metric.value = std::isnan(metric.value) ? value : keep * metric.value + (1.0 - keep) * value;
  }
  metric.recent = make_metric(metric_of(metric.settings), {metric.spec.kind, metric.spec.classes},
                              metric.recent->name());
}

std::map<std::string, double> TrainMetrics::values() const {
  std::map<std::string, double> values;
  for (const Decayed& metric : metrics_)
    if (!std::isnan(metric.value)) values[metric.recent->name()] = metric.value;
  return values;
}

}  // namespace emblem
