#include "bench/judge/baseline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/text/json_error.h"
#include "core/text/json_field.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = JsonField::Json;

using Field = JsonField;

// One entry of "label": a number with the common threshold, or an object with its own.
BaselineMetric read_metric(const Field& entry, const Field& baseline, const std::string& name) {
  BaselineMetric metric;
  if (!entry.json().is_object()) {
    metric.value = entry.number();  // TorchEasyRec: higher is better
  } else {
    entry.refuse_unknown({"value", "threshold", "relative_threshold", "better"});
    metric.value = entry["value"].number();
    metric.better = usual_direction(name);
    if (entry.has("better")) {
      const Field better = entry["better"];
      if (better.json() != "higher" && better.json() != "lower")
        better.refuse("\"higher\" or \"lower\"");
      metric.better = better.json() == "higher" ? Better::kHigher : Better::kLower;
    }
    if (entry.has("relative_threshold")) {
      metric.kind = ThresholdKind::kRelative;
      metric.threshold = entry["relative_threshold"].number(0);
      return metric;
    }
    if (entry.has("threshold")) {
      metric.threshold = entry["threshold"].number(0);
      return metric;
    }
  }
  EMBLEM_REQUIRE(baseline.has("threshold"), baseline.place(), " has no \"threshold\" for \"", name,
                 "\"; add the allowed difference from the label");
  const Field thresholds = baseline["threshold"];
  if (!thresholds.json().is_object()) {
    metric.threshold = thresholds.number(0);
    return metric;
  }
  EMBLEM_REQUIRE(thresholds.has(name.c_str()), thresholds.place(), " has no entry for \"", name,
                 "\", which \"label\" lists; add it");
  metric.threshold = thresholds[name.c_str()].number(0);
  return metric;
}

Machine read_measured_on(const Field& field) {
  field.refuse_unknown({"cpu", "cores", "gpu"});
  Machine machine;
  if (field.has("cpu")) machine.cpu = field["cpu"].text();
  if (field.has("cores")) machine.cores = static_cast<int>(field["cores"].integer());
  if (field.has("gpu")) machine.gpu = field["gpu"].text();
  return machine;
}

Baseline read_baseline(const std::string& config, const Field& field) {
  field.refuse_unknown({"label", "threshold", "run_cnt", "set", "timeout_s", "optional_data",
                        "measured_on", "note"});
  EMBLEM_REQUIRE(
      field.has("label") && field.json()["label"].is_object() && !field.json()["label"].empty(),
      field.place(), " has no \"label\"; expected metrics and their values");
  Baseline baseline;
  baseline.config = config;
  for (const auto& [name, entry] : field["label"].members())
    baseline.metrics.emplace_back(name, read_metric(entry, field, name));
  if (field.has("run_cnt")) baseline.runs = field["run_cnt"].integer(1);
  if (field.has("set")) {
    const Field overrides = field["set"];
    for (size_t i = 0; i < overrides.size(); ++i) baseline.overrides.push_back(overrides[i].text());
  }
  if (field.has("timeout_s")) baseline.timeout_seconds = field["timeout_s"].number(0);
  if (field.has("optional_data")) baseline.optional_data = field["optional_data"].flag();
  if (field.has("measured_on")) baseline.measured_on = read_measured_on(field["measured_on"]);
  return baseline;
}

std::string normal(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().generic_string();
}

}  // namespace

double BaselineMetric::margin() const {
  return kind == ThresholdKind::kRelative ? threshold * std::abs(value) : threshold;
}

bool Baseline::comparable_on(const Machine& machine) const {
  return !measured_on || (measured_on->cpu == machine.cpu && measured_on->cores == machine.cores &&
                          measured_on->gpu == machine.gpu);
}

std::vector<Baseline> parse_baselines(std::string_view text, const std::string& source) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(source, " is not JSON: ", json_problem(error.what()),
                    "; expected baselines by config path"));
  }
  const Field all(json, source);
  if (!json.is_object()) all.refuse("an object of baselines by config path");
  std::vector<Baseline> baselines;
  for (const auto& [config, value] : json.items())
    baselines.push_back(read_baseline(config, Field(value, cat(source, ": \"", config, "\""))));
  return baselines;
}

const Baseline* find_baseline(const std::vector<Baseline>& baselines, const std::string& config) {
  const std::string path = normal(config);
  for (const Baseline& baseline : baselines)
    if (normal(baseline.config) == path) return &baseline;
  for (const Baseline& baseline : baselines)
    if (path.ends_with(cat("/", normal(baseline.config)))) return &baseline;
  return nullptr;
}

bool depends_on_load(std::string_view metric) {
  return metric.find("second") != std::string_view::npos ||
         metric.find("latency") != std::string_view::npos;
}

bool depends_on_machine(std::string_view metric) {
  return depends_on_load(metric) || metric.find("memory") != std::string_view::npos;
}

}  // namespace emblem
