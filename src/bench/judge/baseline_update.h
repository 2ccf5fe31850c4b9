// bench/judge/baseline_update.h - writes the means of a suite as new baselines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/judge/verdict.h"

namespace emblem {

struct BaselineChange {
  std::string config, metric;
  std::optional<double> before;  // none: a new metric
  double after = 0;
};

struct BaselineUpdate {
  std::string json;  // the new text of the file
  std::vector<BaselineChange> changes;
};

// `json` is the current text of the file ("{}" for a new file), valid for parse_baselines. Its
// form, its thresholds and pipelines that did not run are kept. A pipeline without a baseline gets
// one with all its metrics and thresholds that its own runs meet. UNRELIABLE and SKIPPED pipelines
// are not changed.
BaselineUpdate update_baselines(std::string_view json, const std::vector<ConfigOutcome>& outcomes,
                                const Machine& machine);

// One line per change: "configs/a.config  auc  0.7997 -> 0.8003 (+0.08 %)"
std::string to_text(const std::vector<BaselineChange>& changes);

}  // namespace emblem
