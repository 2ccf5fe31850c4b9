#include "train/metrics/check.h"

#include "core/text.h"
#include "emblem/error.h"
#include "train/metrics/metrics.h"

namespace emblem {
namespace {

void require_computed(const std::vector<std::string>& names, const std::string& metric,
                      const std::string& watcher) {
  std::string known;
  for (const std::string& name : names) {
    if (name == metric) return;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorCode::kInvalidArgument, cat(watcher, " watches metric \"", metric,
                                               "\", which is not computed; there are: ", known,
                                               " (add it to model_config.metrics)"));
}

}  // namespace

void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout,
                   const std::string& stop_at) {
  std::vector<std::string> names;
  for (const auto& metric : make_metrics(config.model_config())) names.push_back(metric->name());
  if (const auto key = grouping_key(config.model_config())) {
    EMBLEM_REQUIRE(layout.find(*key).kind == FeatureKind::kSparse,
                   "metric grouped_auc groups by \"", *key,
                   "\", which is numeric; name an id feature as its grouping_key");
  }
  const config::TrainConfig& train = config.train_config();
  if (train.has_early_stopping())
    require_computed(names, train.early_stopping().metric(), "train_config.early_stopping");
  if (train.sparse_optimizer().has_reduce_on_plateau_learning_rate())
    require_computed(names, train.sparse_optimizer().reduce_on_plateau_learning_rate().metric(),
                     "train_config.sparse_optimizer.reduce_on_plateau_learning_rate");
  if (train.dense_optimizer().has_reduce_on_plateau_learning_rate())
    require_computed(names, train.dense_optimizer().reduce_on_plateau_learning_rate().metric(),
                     "train_config.dense_optimizer.reduce_on_plateau_learning_rate");
  if (!stop_at.empty()) require_computed(names, stop_at, "--stop-at");
}

std::vector<std::string> metric_notes(const config::ModelConfig& model) {
  std::vector<std::string> notes;
  for (const config::MetricConfig& metric : model.metrics()) {
    if (!metric.has_auc() || metric.auc().thresholds() == 0) continue;
    notes.push_back(cat("auc is binned: computed at ", metric.auc().thresholds(),
                        " thresholds, as TorchEasyRec does; auc { thresholds: 0 } is exact"));
  }
  return notes;
}

}  // namespace emblem
