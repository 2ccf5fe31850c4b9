#include "config/feature/metrics.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "core/text/joined.h"
#include "emblem/error.h"
#include "loss/from_config.h"

namespace emblem {
namespace {

using config::MetricConfig;

constexpr const char* kEarlyStopping = "train_config.early_stopping";

// Whether `name` is that of a loss, or begins with one, followed by "_".
bool is_loss(std::string_view name) {
  const auto* losses = config::LossConfig::descriptor()->FindOneofByName("loss");
  for (int i = 0; i < losses->field_count(); ++i) {
    const std::string& loss = losses->field(i)->name();
    if (name.starts_with(loss) && (name.size() == loss.size() || name[loss.size()] == '_'))
      return true;
  }
  return false;
}

std::string name_of_metric(const MetricConfig& metric, const std::vector<std::string>& taken) {
  const std::string name = reported_name(metric);
  const auto second_name = metric_kind_of(metric).second_name;
  const bool is_taken = std::find(taken.begin(), taken.end(), name) != taken.end();
  return is_taken && second_name != nullptr ? second_name(metric) : name;
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
  if (const MetricKind* kind = find_metric(name)) return kind->direction;
  if (is_loss(name)) return MetricDirection::kLowerIsBetter;
  return std::nullopt;
}

bool lower_is_better(std::string_view metric) {
  return direction_of_metric(metric) == MetricDirection::kLowerIsBetter;
}

std::vector<MetricConfig> reported_metrics(const HeadSpec& head) {
  if (!head.metrics.empty() || head.in_training_only) return head.metrics;
  if (head.role == HeadSpec::Role::kVector) return {};
  if (head.role == HeadSpec::Role::kRanks) {
    MetricConfig recall;
    recall.mutable_recall_at_k();
    return {recall};
  }
  std::vector<MetricConfig> metrics(2);
  if (head.kind == HeadKind::kNumber) {
    metrics[0].mutable_mean_absolute_error();
    metrics[1].mutable_mean_squared_error();
    return metrics;
  }
  if (head.classes > 2)
    metrics[0].mutable_accuracy();
  else
    metrics[0].mutable_auc()->set_thresholds(0);
  metrics[1].mutable_log_loss();
  return metrics;
}

MeasuredHead measured(const HeadSpec& head) {
  return {head.kind, head.classes, head.role == HeadSpec::Role::kRanks};
}

std::vector<config::LossConfig> reported_losses(const HeadSpec& head) {
  if (head.metrics.empty()) return {};
  std::vector<config::LossConfig> losses = head.losses;
  // The only loss of a model with one label is in every line of the log, and log_loss is its
  // metric.
  if (head.name.empty())
    std::erase_if(losses, [](const auto& loss) { return loss.has_binary_cross_entropy(); });
  return losses;
}

std::vector<std::string> metric_names(const HeadSpec& head) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    EMBLEM_REQUIRE(std::find(names.begin(), names.end(), name) == names.end(), "metric ", name,
                   " is configured twice in ", owner_of_metrics(head), "; remove one of them");
    names.push_back(name);
  };
  for (const MetricConfig& metric : reported_metrics(head)) add(name_of_metric(metric, names));
  for (const config::LossConfig& loss : reported_losses(head)) add(loss_name(loss));
  for (std::string& name : names) name = head.named(name);
  return names;
}

std::vector<std::string> metric_names(const std::vector<HeadSpec>& heads) {
  std::vector<std::string> names;
  for (const HeadSpec& head : heads)
    for (std::string& name : metric_names(head)) names.push_back(std::move(name));
  return names;
}

std::string owner_of_metrics(const HeadSpec& head) {
  return head.name.empty() ? "model_config.metrics" : cat("the metrics of tower ", head.name);
}

std::vector<std::string> metric_notes(const std::vector<HeadSpec>& heads) {
  std::vector<std::string> notes;
  for (const HeadSpec& head : heads) {
    for (const MetricConfig& metric : head.metrics) {
      const MetricKind& kind = metric_kind_of(metric);
      const std::string note = kind.note == nullptr ? "" : kind.note(metric);
      if (!note.empty()) notes.push_back(cat(head.named(kind.name), " ", note));
    }
  }
  return notes;
}

void require_watchable_metric(const std::vector<HeadSpec>& heads, const std::string& metric,
                              const std::string& setting) {
  const std::vector<std::string> names = metric_names(heads);
  EMBLEM_REQUIRE(std::find(names.begin(), names.end(), metric) != names.end(), setting, " is \"",
                 metric, "\", but evaluations report ", joined(names),
                 "; watch one of these, or add it to ",
                 heads.size() == 1 ? owner_of_metrics(heads[0]) : "the metrics of its tower");
  EMBLEM_REQUIRE(direction_of_metric(metric) != MetricDirection::kNone, setting, " is \"", metric,
                 "\", of which neither a higher nor a lower value is better; watch another metric");
}

void require_watchable_metrics(const std::vector<HeadSpec>& heads, const config::TrainConfig& train,
                               const std::vector<std::string>& own) {
  const config::EarlyStopping& stopping = train.early_stopping();
  const bool watches_own = std::find(own.begin(), own.end(), stopping.metric()) != own.end();
  EMBLEM_REQUIRE(
      !watches_own || stopping.has_higher_is_better() || direction_of_metric(stopping.metric()),
      kEarlyStopping, ".metric is \"", stopping.metric(),
      "\", a metric of one's own; set higher_is_better to true or false");
  const auto require = [&](const std::string& metric, const std::string& owner) {
    require_watchable_metric(heads, metric, owner + ".metric");
  };
  if (train.has_early_stopping() && !watches_own)
    require(train.early_stopping().metric(), kEarlyStopping);
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
