#include "bench/judge/baseline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/text/json_error.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& where, const Json& found, const std::string& expected) {
  std::string text = found.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  throw Error(ErrorCode::kInvalidArgument, cat(where, " is ", text, "; expected ", expected));
}

double number_at(const Json& json, const std::string& where) {
  if (!json.is_number()) fail(where, json, "a number");
  return json.get<double>();
}

double threshold_at(const Json& json, const std::string& where) {
  const double threshold = number_at(json, where);
  if (threshold < 0) fail(where, json, "a number of at least 0");
  return threshold;
}

void refuse_unknown(const Json& json, const std::string& where,
                    const std::vector<std::string>& known) {
  if (!json.is_object()) fail(where, json, "an object");
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto near = nearest_name(key, known);
    throw Error(ErrorCode::kInvalidArgument,
                cat(where, " has an unknown field \"", key, "\"",
                    near ? cat("; did you mean \"", *near, "\"?") : std::string()));
  }
}

// One entry of "label": a number with the common threshold, or an object with its own.
BaselineMetric read_metric(const Json& json, const Json& thresholds, const std::string& name,
                           const std::string& where) {
  BaselineMetric metric;
  const std::string here = where + ".label." + name;
  const Json* own = nullptr;
  if (json.is_object()) {
    refuse_unknown(json, here, {"value", "threshold", "relative_threshold", "better"});
    if (!json.contains("value")) fail(here, json, "an object with a \"value\"");
    metric.value = number_at(json["value"], here + ".value");
    metric.better = usual_direction(name);
    if (json.contains("better")) {
      const Json& better = json["better"];
      if (better != "higher" && better != "lower")
        fail(here + ".better", better, "\"higher\" or \"lower\"");
      metric.better = better == "higher" ? Better::kHigher : Better::kLower;
    }
    if (json.contains("relative_threshold")) {
      metric.kind = ThresholdKind::kRelative;
      own = &json["relative_threshold"];
    } else if (json.contains("threshold")) {
      own = &json["threshold"];
    }
  } else {
    metric.value = number_at(json, here);  // TorchEasyRec: higher is better
  }
  if (own == nullptr && thresholds.is_object()) {
    EMBLEM_REQUIRE(thresholds.contains(name), where, ".threshold has no entry for \"", name,
                   "\", which \"label\" lists; add it");
    own = &thresholds[name];
  }
  if (own == nullptr) {
    EMBLEM_REQUIRE(!thresholds.is_null(), where, " has no \"threshold\" for \"", name,
                   "\"; add the allowed difference from the label");
    own = &thresholds;
  }
  metric.threshold = threshold_at(*own, where + ".threshold");
  return metric;
}

Machine read_measured_on(const Json& json, const std::string& where) {
  refuse_unknown(json, where, {"cpu", "cores", "gpu"});
  Machine machine;
  machine.cpu = json.value("cpu", "");
  machine.cores = json.value("cores", 0);
  machine.gpu = json.value("gpu", "");
  return machine;
}

Baseline read_baseline(const std::string& config, const Json& json, const std::string& where) {
  refuse_unknown(json, where,
                 {"label", "threshold", "run_cnt", "set", "timeout_s", "optional_data",
                  "measured_on", "note"});
  EMBLEM_REQUIRE(json.contains("label") && json["label"].is_object() && !json["label"].empty(),
                 where, " has no \"label\"; expected metrics and their values");
  Baseline baseline;
  baseline.config = config;
  const Json thresholds = json.contains("threshold") ? json["threshold"] : Json();
  for (const auto& [name, value] : json["label"].items())
    baseline.metrics.emplace_back(name, read_metric(value, thresholds, name, where));
  if (json.contains("run_cnt")) {
    const Json& runs = json["run_cnt"];
    if (!runs.is_number_integer() || runs.get<int64_t>() < 1)
      fail(where + ".run_cnt", runs, "a whole number of at least 1");
    baseline.runs = runs.get<int64_t>();
  }
  if (json.contains("set")) {
    if (!json["set"].is_array()) fail(where + ".set", json["set"], "a list of path=value");
    for (const Json& item : json["set"]) {
      if (!item.is_string()) fail(where + ".set", item, "path=value");
      baseline.overrides.push_back(item.get<std::string>());
    }
  }
  if (json.contains("timeout_s"))
    baseline.timeout_seconds = threshold_at(json["timeout_s"], where + ".timeout_s");
  if (json.contains("optional_data")) {
    const Json& optional = json["optional_data"];
    if (!optional.is_boolean()) fail(where + ".optional_data", optional, "true or false");
    baseline.optional_data = optional.get<bool>();
  }
  if (json.contains("measured_on"))
    baseline.measured_on = read_measured_on(json["measured_on"], where + ".measured_on");
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
  if (!json.is_object()) fail(source, json, "an object of baselines by config path");
  std::vector<Baseline> baselines;
  for (const auto& [config, value] : json.items()) {
    try {
      baselines.push_back(read_baseline(config, value, cat(source, ": \"", config, "\"")));
    } catch (const Json::exception& error) {
      throw Error(ErrorCode::kInvalidArgument,
                  cat(source, ": \"", config,
                      "\" has a value of the wrong type: ", json_problem(error.what())));
    }
  }
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
