// bench/judge/baseline.h - what pipelines are expected to reach: TorchEasyRec's
// base_eval_metric.json as it is, and Emblem's additions to it (docs/benchmarking.md).
//
//   {"configs/criteo/dlrm.config": {
//      "label": {"auc": 0.7997,
//                "log_loss": {"value": 0.4517, "threshold": 0.002, "better": "lower"},
//                "samples_per_second": {"value": 1e5, "relative_threshold": 0.1}},
//      "threshold": 0.002,                      or one for each metric: {"auc": 0.002}
//      "run_cnt": 3,
//      "set": ["data_config.batch_size=4096"],  overrides of the pipeline
//      "timeout_s": 600,
//      "optional_data": true,                   skipped where its training data is not there
//      "measured_on": {"cpu": "Arm Neoverse N1", "cores": 2}}}   where speed and memory compare
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

enum class ThresholdKind { kAbsolute, kRelative };

struct BaselineMetric {
  double value = 0;
  double threshold = 0;
  ThresholdKind kind = ThresholdKind::kAbsolute;
  Better better = Better::kHigher;

  // How far from `value` a mean may lie without being better or worse.
  double margin() const;
};

struct Baseline {
  std::string config;  // its key: a path
  Named<BaselineMetric> metrics;
  int64_t runs = 1;
  std::vector<std::string> overrides;
  double timeout_seconds = 0;  // 0: the suite's
  bool optional_data = false;
  std::optional<Machine> measured_on;  // only cpu, cores and gpu

  // Whether figures of speed and memory that `machine` gives can be held against these.
  bool comparable_on(const Machine& machine) const;
};

// `source` names the text in errors. Throws Error (kInvalidArgument).
std::vector<Baseline> parse_baselines(std::string_view json, const std::string& source);

// The baseline whose key is `config`, both as normal paths; or else the one whose key is the end of
// it, so that an absolute path finds what was recorded as a relative one. Null without one.
const Baseline* find_baseline(const std::vector<Baseline>& baselines, const std::string& config);

// Speed and memory belong to a machine; what an evaluation finds belongs to the model.
bool depends_on_machine(std::string_view metric);
// Whether other processes on the machine change it.
bool depends_on_load(std::string_view metric);

}  // namespace emblem
