// bench/judge/baseline.h - expected results of pipelines: TorchEasyRec's base_eval_metric.json
// and Emblem's additions to it (docs/benchmarking.md).
//
//   {"configs/criteo/dlrm.config": {
//      "label": {"auc": 0.7997,
//                "log_loss": {"value": 0.4517, "threshold": 0.002, "better": "lower"},
//                "samples_per_second": {"value": 1e5, "relative_threshold": 0.1}},
//      "threshold": 0.002,                      or one for each metric: {"auc": 0.002}
//      "run_cnt": 3,
//      "set": ["data_config.batch_size=4096"],  overrides of the pipeline
//      "timeout_s": 600,
//      "optional_data": true,                   skipped where its training data is missing
//      "measured_on": {"cpu": "Arm Neoverse N1", "cores": 2}}}   for speed and memory
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

  // The largest difference of a mean from `value` that is neither better nor worse.
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

  // Whether speed and memory on `machine` are comparable with this baseline.
  bool comparable_on(const Machine& machine) const;
};

// `source` names the text in errors. Throws Error (kInvalidArgument).
std::vector<Baseline> parse_baselines(std::string_view json, const std::string& source);

// The baseline whose key is `config`, both normalized; or else the one whose key is a suffix of it,
// so that an absolute path finds the baseline of a relative path. Null if there is none.
const Baseline* find_baseline(const std::vector<Baseline>& baselines, const std::string& config);

// True for speed and memory; false for metrics of an evaluation.
bool depends_on_machine(std::string_view metric);
// True for speed, which other processes on the machine affect.
bool depends_on_load(std::string_view metric);

}  // namespace emblem
