#include "train/evaluation.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "train/lookup_report.h"
#include "train/rank_evaluation.h"

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

void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout) {
  evaluated_metrics(config, layout);
}

Evaluation evaluation_of(std::vector<HeadMetrics>& metrics, const PredictionPass& pass,
                         std::chrono::steady_clock::time_point start) {
  Evaluation result{
      .rows = pass.rows, .bad_rows = pass.bad_rows, .lookups = by_feature(pass.lookups)};
  for (HeadMetrics& of_head : metrics) {
    for (size_t i = 0; i < of_head.names().size(); ++i)
      result.metrics[of_head.names()[i]] = of_head.value(i);
    if (const auto only = of_head.only_label())
      result.only_labels.push_back({*only, of_head.names()});
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

namespace {

std::optional<Evaluation> evaluate_alone(const Context& context, Model& model,
                                         const config::PipelineConfig& config,
                                         const FeatureLayout& layout,
                                         const LoaderOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<HeadMetrics> metrics = evaluated_metrics(config, layout);
  const auto take = [&](const Batch& batch, const std::vector<View<const float>>& logits) {
    for (size_t head = 0; head < metrics.size(); ++head) metrics[head].add(batch, logits[head]);
  };
  const auto pass =
      for_each_prediction(context, model, config, layout, options, "evaluating", take);
  if (!pass) return std::nullopt;
  return evaluation_of(metrics, *pass, start);
}

}  // namespace

std::optional<Evaluation> evaluate(const Context& context, Model& model,
                                   const config::PipelineConfig& config,
                                   const FeatureLayout& layout, const LoaderOptions& options,
                                   const World* world) {
  LoaderOptions limited = options;
  if (config.eval_config().has_num_steps()) limited.max_batches = config.eval_config().num_steps();
  auto result = world == nullptr ? evaluate_alone(context, model, config, layout, limited)
                                 : evaluate_shards(context, model, config, layout, limited, *world);
  if (!result) return std::nullopt;
  EMBLEM_REQUIRE(
      result->rows > 0, "no rows to evaluate in ", options.input,
      result->bad_rows > 0 ? cat(": all ", result->bad_rows, " are bad") : std::string());
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
