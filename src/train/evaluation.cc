#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/host_copy.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "core/text.h"
#include "model/probability.h"
#include "train/batch_stream.h"
#include "train/lookup_report.h"
#include "train/metrics/metrics.h"

namespace emblem {
namespace {

bool is_bad(const Batch& batch, int64_t row) {
  return !batch.bad.empty() && batch.bad[static_cast<size_t>(row)] != 0;
}

// The first key of the row, 0 where it has none.
int64_t first_key(const SparseColumn& column, int64_t row) {
  if (column.offsets.empty()) return column.keys[row];
  return column.offsets[row] < column.offsets[row + 1] ? column.keys[column.offsets[row]] : 0;
}

// The rows of a batch that could be read, as metrics take them.
class ScoredRows {
 public:
  // `grouping` is the sparse_index of the feature that groups rows, if any.
  explicit ScoredRows(std::optional<int64_t> grouping) : grouping_(grouping) {}

  MetricBatch of(const Batch& batch, View<const float> logits) {
    for (auto* values : {&predictions_, &labels_, &logits_, &weights_}) values->clear();
    groups_.clear();
    for (int64_t row = 0; row < batch.rows; ++row) {
      if (is_bad(batch, row)) continue;
      predictions_.push_back(probability_of(logits.data[row]));
      labels_.push_back(batch.labels[row]);
      logits_.push_back(logits.data[row]);
      if (!batch.sample_weights.empty()) weights_.push_back(batch.sample_weights[row]);
      if (grouping_) groups_.push_back(first_key(batch.sparse[*grouping_], row));
    }
    return {.predictions = predictions_,
            .labels = labels_,
            .logits = logits_,
            .weights = weights_,
            .groups = groups_};
  }

 private:
  std::optional<int64_t> grouping_;
  std::vector<float> predictions_, labels_, logits_, weights_;
  std::vector<int64_t> groups_;
};

// Whether labels differ.
class LabelRange {
 public:
  void add(std::span<const float> labels) {
    for (const float label : labels) {
      least_ = std::min(least_, label);
      most_ = std::max(most_, label);
    }
  }
  std::optional<float> only() const {
    return least_ == most_ ? std::optional(least_) : std::nullopt;
  }

 private:
  float least_ = std::numeric_limits<float>::infinity();
  float most_ = -std::numeric_limits<float>::infinity();
};

}  // namespace

double Evaluation::at(const std::string& metric) const {
  const auto found = metrics.find(metric);
  if (found != metrics.end()) return found->second;
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::kInvalidArgument, cat("metric \"", metric, "\" is not evaluated, but ",
                                               names, "; add it to model_config.metrics"));
}

std::optional<PredictionPass> for_each_prediction(
    const Context& context, Model& model, const config::PipelineConfig& config,
    const FeatureLayout& layout, const LoaderOptions& options, const std::string& title,
    const std::function<void(const Batch&, View<const float> logits)>& take) {
  const auto own_memory = options.memory == nullptr ? batch_memory(context) : nullptr;
  LoaderOptions loading = options;
  if (own_memory) loading.memory = own_memory.get();
  loading.bad_rows = BadRowHandling::kBlank;
  Loader loader(config.data_config(), layout, loading);
  BatchStream batches(context, batches_of(loader));
  Progress progress(title, loader.expected_rows());
  progress.update(0);
  model.take_lookup_counts(context);  // of passes before this one
  PredictionPass pass;
  while (batches.next()) {
    if (interrupted()) return std::nullopt;
    const Batch& batch = batches.host();
    model.forward(context, batches.batch(), Phase::kEval, 0);
    batches.look_ahead();
    const std::vector<float> logits = to_host(context, model.logits());
    take(batch, {logits.data(), batch.rows, 1});
    const auto bad = std::count(batch.bad.begin(), batch.bad.end(), 1);
    pass.rows += batch.rows - bad;
    pass.bad_rows += bad;
    progress.set_total(loader.expected_rows());
    progress.update(pass.rows + pass.bad_rows);
  }
  model.check(context);
  pass.lookups = model.take_lookup_counts(context);
  progress.set_total(loader.expected_rows());
  progress.finish();
  return pass;
}

void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout) {
  make_metrics(config.model_config());
  if (const auto grouping = grouping_key(config.model_config())) {
    EMBLEM_REQUIRE(layout.find(*grouping).kind == FeatureKind::kSparse, "metric grouped_auc has ",
                   "grouping_key \"", *grouping,
                   "\", which is a numeric feature; group by an id_feature");
  }
}

std::optional<Evaluation> evaluate(const Context& context, Model& model,
                                   const config::PipelineConfig& config,
                                   const FeatureLayout& layout, const LoaderOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto metrics = make_metrics(config.model_config());
  const auto grouping = grouping_key(config.model_config());
  LoaderOptions limited = options;
  if (config.eval_config().has_num_steps()) limited.max_batches = config.eval_config().num_steps();
  ScoredRows rows(grouping ? std::optional(layout.find(*grouping).sparse_index) : std::nullopt);
  LabelRange labels;
  const auto take = [&](const Batch& batch, View<const float> logits) {
    const MetricBatch scored = rows.of(batch, logits);
    labels.add(scored.labels);
    for (auto& metric : metrics) metric->add(scored);
  };
  const auto pass =
      for_each_prediction(context, model, config, layout, limited, "evaluating", take);
  if (!pass) return std::nullopt;
  EMBLEM_REQUIRE(pass->rows > 0, "no rows to evaluate in ", options.input,
                 pass->bad_rows > 0 ? cat(": all ", pass->bad_rows, " are bad") : std::string());
  Evaluation result{.rows = pass->rows,
                    .bad_rows = pass->bad_rows,
                    .lookups = by_feature(pass->lookups),
                    .only_label = labels.only()};
  for (auto& metric : metrics) result.metrics[metric->name()] = metric->value();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string undefined_metrics_reason(const Evaluation& evaluation,
                                     const std::string& label_positive) {
  std::string names;
  size_t count = 0;
  for (const auto& [name, value] : evaluation.metrics) {
    if (!std::isnan(value)) continue;
    names += (count++ == 0 ? "" : ", ") + name;
  }
  if (count == 0 || !evaluation.only_label) return "";
  std::string reason = cat(names, count == 1 ? " is" : " are", " not defined: all ",
                           evaluation.rows, " labels are ", *evaluation.only_label);
  if (!label_positive.empty() && *evaluation.only_label == 0)
    reason += cat("; no row has the label_positive \"", printable(label_positive), "\"");
  return reason;
}

std::string to_text(const Evaluation& evaluation) {
  std::string text;
  for (const auto& [name, value] : evaluation.metrics) {
    text += (text.empty() ? "" : "  ") + name + " " + format_metric(value);
  }
  return text;
}

std::string to_json(const Evaluation& evaluation, const std::string& checkpoint, int64_t step) {
  nlohmann::json json;
  for (const auto& [name, value] : evaluation.metrics) {
    if (std::isnan(value))
      json[name] = nullptr;
    else
      json[name] = value;
  }
  json["rows"] = evaluation.rows;
  json["bad_rows"] = evaluation.bad_rows;
  json["checkpoint"] = checkpoint;
  json["step"] = step;
  json["lookups"] = nlohmann::json::object();
  for (const FeatureLookups& one : evaluation.lookups)
    json["lookups"][one.feature] = {{"values", one.counts.values},
                                    {"missing", one.counts.missing},
                                    {"missing_share", missing_share(one.counts)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace emblem
