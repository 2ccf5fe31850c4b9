// metric/kinds.h - the metrics that a pipeline can ask for.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "metric/metric.h"
#include "metric/metric.pb.h"

namespace emblem {

// kNone: neither a higher nor a lower value is better (calibration, mean_label).
enum class MetricDirection { kHigherIsBetter, kLowerIsBetter, kNone };

// What a metric measures.
struct MeasuredHead {
  HeadKind kind = HeadKind::kBinary;
  int64_t classes = 1;
  bool ranks_candidates = false;  // a matching model, which has no predictions

  bool has_two_outcomes() const {
    return kind == HeadKind::kBinary || (kind == HeadKind::kClass && classes == 2);
  }
};

// A metric is a class, and a function NAME_metric() that describes it, in a file of its own; the
// list is in metric/kinds.cc. What it groups rows by is the field grouping_key of its message.
struct MetricKind {
  const char* name;  // its field in MetricConfig; "X_at_k" with top_k: 5 is reported as X@5
  MetricDirection direction = MetricDirection::kHigherIsBetter;
  // Why it cannot measure a head, to follow "metric NAME "; "": it can.
  std::string (*problem)(const config::MetricConfig&, const MeasuredHead&) = nullptr;
  // Throws Error for settings that are out of range.
  std::unique_ptr<Metric> (*make)(const config::MetricConfig&, const MeasuredHead&,
                                  std::string name) = nullptr;
  // How a second one of a head is named.
  std::string (*second_name)(const config::MetricConfig&) = nullptr;
  // What to know to read its value right, to follow its name; "": nothing.
  std::string (*note)(const config::MetricConfig&) = nullptr;
  // Whether it measures how candidates are ranked, and not predictions.
  bool of_ranks = false;
};

std::span<const MetricKind> metric_kinds();
// Throws Error for settings that select no metric.
const MetricKind& metric_kind_of(const config::MetricConfig& metric);

// "auc", "ndcg@10".
std::string reported_name(const config::MetricConfig& metric);

// By the name that evaluations report: "auc", "auc_8000", "ndcg@10", "auc_ctr". Null when there is
// none.
const MetricKind* find_metric(std::string_view reported);

// The feature that a metric groups rows by; "" where it is not set; none: it does not group.
std::optional<std::string> grouping_key_of(const config::MetricConfig& metric);

// "metric NAME ...", or "" when it can measure the head.
std::string metric_problem(const config::MetricConfig& metric, const MeasuredHead& head);

// Throws Error where the head has nothing that it can measure.
std::unique_ptr<Metric> make_metric(const config::MetricConfig& metric, const MeasuredHead& head,
                                    std::string name);

// ---- for metrics: what they need of a head ----

std::string need_two_outcomes(const config::MetricConfig&, const MeasuredHead& head);
std::string need_classes(const config::MetricConfig&, const MeasuredHead& head);
void require_one_number(const MeasuredHead& head, const std::string& name);  // throws Error

// `make` of a metric of one number per row without settings.
template <auto kMake>
std::unique_ptr<Metric> make_of_number(const config::MetricConfig&, const MeasuredHead& head,
                                       std::string name) {
  require_one_number(head, name);
  return kMake(std::move(name));
}

}  // namespace emblem
