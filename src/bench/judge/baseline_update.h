// bench/judge/baseline_update.h - a suite's means as the new baselines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

struct BaselineChange {
  std::string config, metric;
  std::optional<double> before;  // none: it is new
  double after = 0;
};

struct BaselineUpdate {
  std::string json;  // the new text of the file
  std::vector<BaselineChange> changes;
};

// `json` is the file's text now ("{}" for a new one), which parse_baselines accepts; its form,
// thresholds and the pipelines that did not run are kept. A pipeline without a baseline gets one
// with all its metrics and thresholds that its own runs keep. UNRELIABLE and SKIPPED ones are left
// as they are.
BaselineUpdate update_baselines(std::string_view json, const std::vector<ConfigOutcome>& outcomes,
                                const Machine& machine);

// A line a change: "configs/a.config  auc  0.7997 -> 0.8003 (+0.08 %)"
std::string to_text(const std::vector<BaselineChange>& changes);

}  // namespace emblem
