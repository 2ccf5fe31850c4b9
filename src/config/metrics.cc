#include "config/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

using config::MetricConfig;

constexpr std::string_view kAucPrefix = "auc_";  // of a second AUC
constexpr const char* kEarlyStopping = "train_config.early_stopping";

MetricDirection direction_of(MetricConfig::MetricCase metric) {
  switch (metric) {
    case MetricConfig::kAuc:
    case MetricConfig::kGroupedAuc:
    case MetricConfig::kRecallAtK:
    case MetricConfig::kAccuracy:
      return MetricDirection::kHigherIsBetter;
    case MetricConfig::kLogLoss:
    case MetricConfig::kNormalizedEntropy:
    case MetricConfig::kMeanAbsoluteError:
    case MetricConfig::kMeanSquaredError:
      return MetricDirection::kLowerIsBetter;
    case MetricConfig::kCalibration:
    case MetricConfig::kMeanLabel:
    case MetricConfig::kMeanPrediction:
    case MetricConfig::METRIC_NOT_SET:
      break;
  }
  return MetricDirection::kNone;
}

const google::protobuf::OneofDescriptor& all_metrics() {
  return *MetricConfig::descriptor()->FindOneofByName("metric");
}

std::string name_of(const MetricConfig& metric, const std::vector<std::string>& taken) {
  if (metric.metric_case() == MetricConfig::METRIC_NOT_SET) {
    std::vector<std::string> names;
    for (int i = 0; i < all_metrics().field_count(); ++i)
      names.push_back(all_metrics().field(i)->name());
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an entry of model_config.metrics names no metric; expected one of {}",
                            fmt::join(names, ", ")));
  }
  const std::string name =
      MetricConfig::descriptor()->FindFieldByNumber(metric.metric_case())->name();
  if (!metric.has_auc() || std::find(taken.begin(), taken.end(), name) == taken.end()) return name;
  const uint32_t thresholds = metric.auc().thresholds();
  return cat(kAucPrefix, thresholds == 0 ? "exact" : std::to_string(thresholds));
}

// ---- what watches metrics ----

void check_direction(const std::string& owner, const std::string& metric, bool higher_is_better) {
  const auto direction = direction_of_metric(metric);
  if (!direction || *direction == MetricDirection::kNone) return;
  const bool higher = *direction == MetricDirection::kHigherIsBetter;
  EMBLEM_REQUIRE(higher == higher_is_better, owner, ".higher_is_better is ",
                 higher_is_better ? "true" : "false", ", but ", higher ? "higher" : "lower", " ",
                 metric, " is better; remove higher_is_better, it follows from the metric");
}

template <class Watcher>
void check_watcher(const std::string& owner, const Watcher& watcher) {
  EMBLEM_REQUIRE(watcher.min_delta() >= 0, owner, ".min_delta is ", watcher.min_delta(),
                 ", expected at least 0");
  if (watcher.has_higher_is_better())
    check_direction(owner, watcher.metric(), watcher.higher_is_better());
}

template <class Optimizer>
void check_plateau(const std::string& owner, const Optimizer& optimizer) {
  if (!optimizer.has_reduce_on_plateau_learning_rate()) return;
  const config::ReduceOnPlateauLR& plateau = optimizer.reduce_on_plateau_learning_rate();
  check_watcher(owner, plateau);
  EMBLEM_REQUIRE(plateau.factor() > 0 && plateau.factor() < 1, owner, ".factor is ",
                 plateau.factor(), ", expected more than 0 and less than 1");
  EMBLEM_REQUIRE(plateau.min_learning_rate() >= 0, owner, ".min_learning_rate is ",
                 plateau.min_learning_rate(), ", expected at least 0");
}

std::string plateau_of(const char* optimizer) {
  return cat("train_config.", optimizer, ".reduce_on_plateau_learning_rate");
}

}  // namespace

std::optional<MetricDirection> direction_of_metric(std::string_view name) {
  const auto* field = MetricConfig::descriptor()->FindFieldByName(
      name.starts_with(kAucPrefix) ? "auc" : std::string(name));
  if (field == nullptr) return std::nullopt;
  return direction_of(static_cast<MetricConfig::MetricCase>(field->number()));
}

bool lower_is_better(std::string_view metric) {
  return direction_of_metric(metric) == MetricDirection::kLowerIsBetter;
}

std::vector<std::string> metric_names(const config::ModelConfig& model) {
  if (model.metrics().empty()) return {"auc", "log_loss"};
  std::vector<std::string> names;
  for (const MetricConfig& metric : model.metrics()) {
    const std::string name = name_of(metric, names);
    EMBLEM_REQUIRE(std::find(names.begin(), names.end(), name) == names.end(), "metric ", name,
                   " is configured twice in model_config.metrics; remove one of them");
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> metric_notes(const config::ModelConfig& model) {
  std::vector<std::string> notes;
  for (const MetricConfig& metric : model.metrics()) {
    if (!metric.has_auc() || metric.auc().thresholds() == 0) continue;
    notes.push_back(cat("auc is binned: computed at ", metric.auc().thresholds(),
                        " thresholds, as TorchEasyRec does; auc { thresholds: 0 } is exact"));
  }
  return notes;
}

void require_watchable_metric(const config::ModelConfig& model, const std::string& metric,
                              const std::string& setting) {
  const std::vector<std::string> names = metric_names(model);
  EMBLEM_REQUIRE(std::find(names.begin(), names.end(), metric) != names.end(), setting, " is \"",
                 metric, "\", but evaluations report ", fmt::format("{}", fmt::join(names, ", ")),
                 "; watch one of these, or add it to model_config.metrics");
  EMBLEM_REQUIRE(direction_of_metric(metric) != MetricDirection::kNone, setting, " is \"", metric,
                 "\", of which neither a higher nor a lower value is better; watch another metric");
}

void require_watchable_metrics(const config::PipelineConfig& config) {
  const config::TrainConfig& train = config.train_config();
  const auto require = [&](const std::string& metric, const std::string& owner) {
    require_watchable_metric(config.model_config(), metric, owner + ".metric");
  };
  if (train.has_early_stopping()) require(train.early_stopping().metric(), kEarlyStopping);
  if (train.sparse_optimizer().has_reduce_on_plateau_learning_rate())
    require(train.sparse_optimizer().reduce_on_plateau_learning_rate().metric(),
            plateau_of("sparse_optimizer"));
  if (train.dense_optimizer().has_reduce_on_plateau_learning_rate())
    require(train.dense_optimizer().reduce_on_plateau_learning_rate().metric(),
            plateau_of("dense_optimizer"));
}

void check_metric_watchers(const config::TrainConfig& train) {
  if (train.has_early_stopping()) {
    check_watcher(kEarlyStopping, train.early_stopping());
    EMBLEM_REQUIRE(train.early_stopping().patience() > 0, kEarlyStopping,
                   ".patience is 0, expected at least 1 evaluation without a gain");
  }
  check_plateau(plateau_of("sparse_optimizer"), train.sparse_optimizer());
  check_plateau(plateau_of("dense_optimizer"), train.dense_optimizer());
}

}  // namespace emblem
