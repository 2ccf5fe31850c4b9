// config/feature/metrics.h - the metrics of a pipeline by name: which ones evaluations report, and
// in which direction each improves.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/feature/heads.h"
#include "config/proto/pipeline.pb.h"
#include "metric/kinds.h"

namespace emblem {

// The direction of any metric of MetricConfig and any loss, by the name that evaluations report
// ("auc", "auc_8000", "log_loss", "auc_ctr", "binary_cross_entropy_cvr"). Nothing when there is
// no such metric.
std::optional<MetricDirection> direction_of_metric(std::string_view name);

// Whether that is kLowerIsBetter.
bool lower_is_better(std::string_view metric);

// What an evaluation reports of a head: the metrics that it lists and its losses (but not
// binary_cross_entropy of a model with one label). When it lists none: the exact AUC and log loss,
// for more than two classes accuracy and log loss, for a number the mean errors, for ranks
// recall@5.
std::vector<config::MetricConfig> reported_metrics(const HeadSpec& head);
std::vector<config::LossConfig> reported_losses(const HeadSpec& head);

// The head as metrics see it.
MeasuredHead measured(const HeadSpec& head);

// Their names, in this order: METRIC, or METRIC_TOWER. A second AUC of a head is distinguished by
// its thresholds (auc_8000, auc_exact). Throws Error for duplicates and for entries that select no
// metric.
std::vector<std::string> metric_names(const HeadSpec& head);
std::vector<std::string> metric_names(const std::vector<HeadSpec>& heads);

// "model_config.metrics", or "the metrics of tower ctr".
std::string owner_of_metrics(const HeadSpec& head);

// What to know about the metrics to read them right: a line for each binned AUC.
std::vector<std::string> metric_notes(const std::vector<HeadSpec>& heads);

// Throws Error unless evaluations report `metric` and one direction of it is better. `setting`
// names what watches it: "train_config.early_stopping.metric".
void require_watchable_metric(const std::vector<HeadSpec>& heads, const std::string& metric,
                              const std::string& setting);

// require_watchable_metric for early_stopping and reduce_on_plateau_learning_rate. `own` are names
// of metrics that the caller computes: early stopping may watch them where higher_is_better is set.
void require_watchable_metrics(const std::vector<HeadSpec>& heads, const config::TrainConfig& train,
                               const std::vector<std::string>& own = {});

// Throws Error for a patience, min_delta, factor or higher_is_better of early_stopping and
// reduce_on_plateau_learning_rate that makes no sense.
void check_metric_watchers(const config::TrainConfig& train);

}  // namespace emblem
