#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/interrupt.h"
#include "core/progress.h"
#include "core/text.h"
#include "train/batch_stream.h"
#include "train/host_logits.h"
#include "train/lookup_report.h"
#include "train/metrics/head_metrics.h"

namespace emblem {

std::vector<HeadMetrics> evaluated_metrics(const config::PipelineConfig& config,
                                           const FeatureLayout& layout) {
  std::vector<HeadMetrics> metrics;
  for (const HeadSpec& head : heads_of(config, layout)) metrics.emplace_back(head, layout);
  return metrics;
}

double Evaluation::at(const std::string& metric) const {
  const auto found = metrics.find(metric);
  if (found != metrics.end()) return found->second;
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::kInvalidArgument, cat("metric \"", metric, "\" is not evaluated, but ",
                                               names, "; add it to model_config.metrics"));
}

std::optional<PredictionPass> for_each_prediction(const Context& context, Model& model,
                                                  const config::PipelineConfig& config,
                                                  const FeatureLayout& layout,
                                                  const LoaderOptions& options,
                                                  const std::string& title,
                                                  const TakePredictions& take) {
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
  HostLogits logits;
  while (batches.next()) {
    if (interrupted()) return std::nullopt;
    const Batch& batch = batches.host();
    model.forward(context, batches.batch(), Phase::kEval, 0);
    batches.look_ahead();
    take(batch, logits.of(context, model, batch.rows));
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
  evaluated_metrics(config, layout);
}

std::optional<Evaluation> evaluate(const Context& context, Model& model,
                                   const config::PipelineConfig& config,
                                   const FeatureLayout& layout, const LoaderOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<HeadMetrics> metrics = evaluated_metrics(config, layout);
  LoaderOptions limited = options;
  if (config.eval_config().has_num_steps()) limited.max_batches = config.eval_config().num_steps();
  const auto take = [&](const Batch& batch, const std::vector<View<const float>>& logits) {
    for (size_t head = 0; head < metrics.size(); ++head) metrics[head].add(batch, logits[head]);
  };
  const auto pass =
      for_each_prediction(context, model, config, layout, limited, "evaluating", take);
  if (!pass) return std::nullopt;
  EMBLEM_REQUIRE(pass->rows > 0, "no rows to evaluate in ", options.input,
                 pass->bad_rows > 0 ? cat(": all ", pass->bad_rows, " are bad") : std::string());
  Evaluation result{
      .rows = pass->rows, .bad_rows = pass->bad_rows, .lookups = by_feature(pass->lookups)};
  for (HeadMetrics& of_head : metrics) {
    for (size_t i = 0; i < of_head.names().size(); ++i)
      result.metrics[of_head.names()[i]] = of_head.value(i);
    if (const auto only = of_head.only_label())
      result.only_labels.push_back({*only, of_head.names()});
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string undefined_metrics_reason(const Evaluation& evaluation,
                                     const std::string& label_positive) {
  std::string reasons;
  for (const auto& [label, metrics] : evaluation.only_labels) {
    std::string names;
    size_t count = 0;
    for (const std::string& name : metrics) {
      if (std::isnan(evaluation.at(name))) names += (count++ == 0 ? "" : ", ") + name;
    }
    if (count == 0) continue;
    reasons += cat(reasons.empty() ? "" : "; ", names, count == 1 ? " is" : " are",
                   " not defined: all ", evaluation.rows, " labels are ", label);
    if (!label_positive.empty() && label == 0)
      reasons += cat("; no row has the label_positive \"", printable(label_positive), "\"");
  }
  return reasons;
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
