#include "metric/kinds.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "core/text/joined.h"
#include "emblem/error.h"

namespace emblem {

// The list of metrics.
#define EMBLEM_METRICS(METRIC) \
  METRIC(auc)                  \
  METRIC(multiclass_auc)       \
  METRIC(recall_at_k)          \
  METRIC(mean_absolute_error)  \
  METRIC(mean_squared_error)   \
  METRIC(accuracy)             \
  METRIC(grouped_auc)          \
  METRIC(xauc)                 \
  METRIC(grouped_xauc)         \
  METRIC(normalized_entropy)   \
  METRIC(log_loss)             \
  METRIC(calibration)          \
  METRIC(mean_label)           \
  METRIC(mean_prediction)      \
  METRIC(ndcg_at_k)

#define EMBLEM_METRIC_DECLARED(name) MetricKind name##_metric();
#define EMBLEM_METRIC_LISTED(name) name##_metric(),

EMBLEM_METRICS(EMBLEM_METRIC_DECLARED)

std::span<const MetricKind> metric_kinds() {
  static const MetricKind kKinds[] = {EMBLEM_METRICS(EMBLEM_METRIC_LISTED)};
  return kKinds;
}

namespace {

constexpr std::string_view kAtK = "_at_k";

const google::protobuf::FieldDescriptor* field_of(const config::MetricConfig& metric) {
  return metric.GetDescriptor()->FindFieldByNumber(metric.metric_case());
}

// The settings of the metric.
const google::protobuf::Message& settings_of(const config::MetricConfig& metric) {
  return metric.GetReflection()->GetMessage(metric, field_of(metric));
}

}  // namespace

const MetricKind& metric_kind_of(const config::MetricConfig& metric) {
  const auto* field = field_of(metric);
  std::vector<std::string> names;
  for (const MetricKind& kind : metric_kinds()) {
    if (field != nullptr && field->name() == kind.name) return kind;
    names.push_back(kind.name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("an entry of metrics names no metric; expected one of ", joined(names)));
}

std::string reported_name(const config::MetricConfig& metric) {
  const std::string name = metric_kind_of(metric).name;
  if (!name.ends_with(kAtK)) return name;
  const google::protobuf::Message& settings = settings_of(metric);
  const auto* top_k = settings.GetDescriptor()->FindFieldByName("top_k");
  return cat(name.substr(0, name.size() - kAtK.size()), "@",
             settings.GetReflection()->GetUInt32(settings, top_k));
}

const MetricKind* find_metric(std::string_view reported) {
  const MetricKind* found = nullptr;
  for (const MetricKind& kind : metric_kinds()) {
    const std::string name = kind.name;
    if (name.ends_with(kAtK) &&
        reported.starts_with(name.substr(0, name.size() - kAtK.size()) + "@"))
      return &kind;
    const bool fits = reported.starts_with(name) &&
                      (reported.size() == name.size() || reported[name.size()] == '_');
    if (fits && (found == nullptr || name.size() > std::string_view(found->name).size()))
      found = &kind;
  }
  return found;
}

std::optional<std::string> grouping_key_of(const config::MetricConfig& metric) {
  if (field_of(metric) == nullptr) return std::nullopt;
  const google::protobuf::Message& settings = settings_of(metric);
  const auto* key = settings.GetDescriptor()->FindFieldByName("grouping_key");
  if (key == nullptr) return std::nullopt;
  return settings.GetReflection()->GetString(settings, key);
}

// Why it cannot measure the head, to follow "metric NAME ".
static std::string problem_of(const MetricKind& kind, const config::MetricConfig& metric,
                              const MeasuredHead& head) {
  if (kind.of_ranks && !head.ranks_candidates)
    return "ranks the candidates of one query, but this model scores single rows; use grouped_auc "
           "or ndcg_at_k with a grouping_key instead";
  if (head.ranks_candidates)
    return kind.of_ranks ? ""
                         : "is of predictions, but this model ranks candidates; use recall_at_k";
  return kind.problem == nullptr ? "" : kind.problem(metric, head);
}

std::string metric_problem(const config::MetricConfig& metric, const MeasuredHead& head) {
  const MetricKind& kind = metric_kind_of(metric);
  const std::string problem = problem_of(kind, metric, head);
  return problem.empty() ? "" : cat("metric ", kind.name, " ", problem);
}

std::unique_ptr<Metric> make_metric(const config::MetricConfig& metric, const MeasuredHead& head,
                                    std::string name) {
  const std::string problem = metric_problem(metric, head);
  if (!problem.empty()) throw Error(ErrorCode::kInvalidArgument, problem);
  return metric_kind_of(metric).make(metric, head, std::move(name));
}

// ---- what metrics need of a head ----

std::string need_two_outcomes(const config::MetricConfig&, const MeasuredHead& head) {
  if (head.has_two_outcomes()) return "";
  return head.kind == HeadKind::kNumber
             ? "is for labels 0 and 1; use mean_squared_error, mean_absolute_error or xauc"
             : "is for labels 0 and 1; use multiclass_auc or accuracy";
}

std::string need_classes(const config::MetricConfig&, const MeasuredHead& head) {
  return head.kind == HeadKind::kNumber
             ? "is for classes; use mean_squared_error or mean_absolute_error"
             : "";
}

void require_one_number(const MeasuredHead& head, const std::string& name) {
  EMBLEM_REQUIRE(head.classes <= 2, "metric ", name,
                 " needs one number per row, but the model has ", head.classes, " classes");
}

}  // namespace emblem
