#include "bench/judge/baseline_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

// Six digits, so that differences of the file are readable.
double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

Json describe(const Machine& machine) {
  Json json = {{"cpu", machine.cpu}, {"cores", machine.cores}};
  if (!machine.gpu.empty()) json["gpu"] = machine.gpu;
  return json;
}

// A threshold of several standard deviations of the metric's own runs, within bounds.
Json new_metric(const MetricOutcome& metric) {
  constexpr double kDeviations = 4;
  const Measure& measure = metric.measure;
  Json json = {{"value", rounded(measure.value)}};
  const double noise = kDeviations * measure.spread;
  if (depends_on_machine(metric.name)) {
    const bool unsteady = metric.name.find("p99") != std::string::npos ||
                          metric.name.find("evaluation") != std::string::npos;
    const double least = unsteady ? 0.5 : 0.1, most = unsteady ? 1.0 : 0.5;
    json["relative_threshold"] = rounded(std::clamp(noise / std::abs(measure.value), least, most));
  } else {
    constexpr double kLeast = 0.002;
    json["threshold"] = rounded(std::max(kLeast, noise));
  }
  json["better"] = measure.better == Better::kHigher ? "higher" : "lower";
  return json;
}

Json new_entry(const ConfigOutcome& outcome, const Machine& machine,
               std::vector<BaselineChange>& changes) {
  Json label = Json::object();
  for (const MetricOutcome& metric : outcome.metrics) {
    if (metric.measure.samples.empty()) continue;
    label[metric.name] = new_metric(metric);
    changes.push_back(
        {outcome.config, metric.name, std::nullopt, label[metric.name]["value"].get<double>()});
  }
  return {{"label", label},
          {"run_cnt", static_cast<int64_t>(outcome.runs.size())},
          {"measured_on", describe(machine)}};
}

void update_entry(Json& entry, const ConfigOutcome& outcome, const Machine& machine,
                  std::vector<BaselineChange>& changes) {
  for (const MetricOutcome& metric : outcome.metrics) {
    if (metric.measure.samples.empty() || !entry["label"].contains(metric.name)) continue;
    Json& label = entry["label"][metric.name];
    Json& value = label.is_object() ? label["value"] : label;
    const double before = value.get<double>(), after = rounded(metric.measure.value);
    value = after;
    if (before != after) changes.push_back({outcome.config, metric.name, before, after});
    if (depends_on_machine(metric.name)) entry["measured_on"] = describe(machine);
  }
}

}  // namespace

BaselineUpdate update_baselines(std::string_view text, const std::vector<ConfigOutcome>& outcomes,
                                const Machine& machine) {
  const std::vector<Baseline> baselines = parse_baselines(text, "the baseline file");
  Json json = Json::parse(text);
  BaselineUpdate update;
  for (const ConfigOutcome& outcome : outcomes) {
    if (outcome.verdict == Verdict::kUnreliable || outcome.verdict == Verdict::kSkipped) continue;
    if (const Baseline* baseline = find_baseline(baselines, outcome.config))
      update_entry(json[baseline->config], outcome, machine, update.changes);
    else
      json[outcome.config] = new_entry(outcome, machine, update.changes);
  }
  update.json = json.dump(2) + "\n";
  return update;
}

std::string to_text(const std::vector<BaselineChange>& changes) {
  std::vector<std::vector<std::string>> rows = {
      {"pipeline", "metric", "before", "after", "change"}};
  for (const BaselineChange& change : changes) {
    const double before = change.before.value_or(0);
    rows.push_back(
        {change.config, change.metric, change.before ? fmt::format("{:.6g}", before) : "-",
         fmt::format("{:.6g}", change.after),
         before != 0 ? fmt::format("{:+.2f} %", 100 * (change.after / before - 1)) : "new"});
  }
  return changes.empty() ? "no baseline changes\n" : align_columns(rows);
}

}  // namespace emblem
