// train/metrics/check.h - whether the metrics of a pipeline can be computed, known before training
// starts.
#pragma once

#include <string>
#include <vector>

#include "config/features.h"
#include "config/pipeline.pb.h"

namespace emblem {

// Throws Error when model_config.metrics is not valid, when grouped_auc groups by something else
// than an id feature, or when early_stopping, a reduce_on_plateau_learning_rate or `stop_at` (of
// --stop-at; "": none) watches a metric that is not computed.
void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout,
                   const std::string& stop_at);

// What to know about the metrics to read them right: a line for each binned AUC.
std::vector<std::string> metric_notes(const config::ModelConfig& model);

}  // namespace emblem
