// config/metrics.h - the metrics of a pipeline by name: which ones evaluations report, and in which
// direction each improves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

// kNone: neither a higher nor a lower value is better (calibration, mean_label).
enum class MetricDirection { kHigherIsBetter, kLowerIsBetter, kNone };

// Of any metric of MetricConfig, by the name that evaluations report ("auc", "auc_8000",
// "log_loss"). Nothing when there is no such metric.
std::optional<MetricDirection> direction_of_metric(std::string_view name);

// Whether that is kLowerIsBetter.
bool lower_is_better(std::string_view metric);

// The names that an evaluation of the model reports, in the order of model_config.metrics; auc and
// log_loss when it lists none. A second AUC is distinguished by its thresholds (auc_8000,
// auc_exact). Throws Error for duplicates and for entries that select no metric.
std::vector<std::string> metric_names(const config::ModelConfig& model);

// What to know about the metrics to read them right: a line for each binned AUC.
std::vector<std::string> metric_notes(const config::ModelConfig& model);

// Throws Error unless evaluations of the model report `metric` and one direction of it is better.
// `setting` names what watches it: "train_config.early_stopping.metric".
void require_watchable_metric(const config::ModelConfig& model, const std::string& metric,
                              const std::string& setting);

// require_watchable_metric for early_stopping and reduce_on_plateau_learning_rate.
void require_watchable_metrics(const config::PipelineConfig& config);

// Throws Error for a patience, min_delta, factor or higher_is_better of early_stopping and
// reduce_on_plateau_learning_rate that makes no sense.
void check_metric_watchers(const config::TrainConfig& train);

}  // namespace emblem
