// train/predict/evaluation.h - a model's metrics over a data set.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "data/loader/loader.h"
#include "model/model.h"
#include "train/metrics/head_metrics.h"
#include "train/predict/prediction_pass.h"

namespace emblem {

struct Evaluation {
  std::map<std::string, double> metrics;  // by name; NaN where undefined
  int64_t rows = 0;                       // that were evaluated
  int64_t bad_rows = 0;                   // that were skipped
  std::vector<FeatureLookups> lookups;    // lookups of the whole evaluation
  // A head whose labels are all equal.
  struct OnlyLabel {
    float label = 0.0f;
    std::vector<std::string> metrics;  // metrics of the head
  };
  std::vector<OnlyLabel> only_labels;
  double seconds = 0.0;

  // The value of a metric. Throws Error with the names of those that were computed if it was not.
  double at(const std::string& metric) const;
};

// What an evaluation measures, by head. Throws Error for a metric that cannot be computed.
std::vector<HeadMetrics> evaluated_metrics(const config::PipelineConfig& config,
                                           const FeatureLayout& layout);

// Throws Error when a metric that is configured cannot be computed.
void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout);

// Runs the model over `options.input`, or as much of it as eval_config.num_steps says, without
// learning: no new rows, no statistics, no dropout. Nothing when it was cancelled. Discards what
// the model counted before (Model::take_lookup_counts). All ranks of `world` call it and get the
// same result, which depends on the number of shards and not on that of ranks: rank 0 merges
// metrics in the order of shards. `options` and num_steps are those of the stream of a shard.
// Throws where the shards together have more bad rows than `options` allows.
std::optional<Evaluation> evaluate(const Context& context, Model& model,
                                   const config::PipelineConfig& config,
                                   const FeatureLayout& layout, const LoaderOptions& options,
                                   const World& world = World::alone(),
                                   const PassWatch& watch = {});

// Why metrics are NaN: "auc_cvr is not defined: all 285 labels are 0". "" when every head has two
// labels, or all metrics have a value. `label_positive` is that of data_config.
std::string undefined_metrics_reason(const Evaluation& evaluation,
                                     const std::string& label_positive);

// "auc 0.802534  log_loss 0.447120"
std::string to_text(const Evaluation& evaluation);

// {"auc": 0.8, "rows": 1000, "bad_rows": 0, "checkpoint": "m/model.ckpt-100", "step": 100,
//  "lookups": {"city": {"values": 1000, "missing": 20, "missing_share": 0.02}}}
std::string to_json(const Evaluation& evaluation, const std::string& checkpoint, int64_t step);

}  // namespace emblem
