#include "bench/result/run_result.h"

#include <algorithm>

#include "core/system/process.h"

namespace emblem {

BenchResult result_of_run(const TrainSummary& summary, const std::string& name) {
  BenchResult result = begin_result("training", name);
  result.settings = {{"steps", summary.steps},
                     {"rows", summary.rows},
                     {"bad_rows", summary.bad_rows},
                     {"skipped_steps", summary.skipped_steps},
                     {"seconds", summary.seconds}};
  if (summary.evaluation) {
    for (const auto& [metric, value] : summary.evaluation->metrics)
      result.metrics.push_back({metric, {value, "", usual_direction(metric)}});
  }
  const auto add = [&](const char* metric, double value, const char* unit) {
    if (value > 0) result.metrics.push_back({metric, {value, unit, usual_direction(metric)}});
  };
  add("samples_per_second",
      static_cast<double>(summary.rows) / std::max(1e-9, summary.training_seconds), "samples/s");
  add("step_seconds_p50", summary.step_seconds_p50, "s");
  add("step_seconds_p99", summary.step_seconds_p99, "s");
  add("evaluation_seconds", summary.last_evaluation_seconds, "s");
  add("peak_memory", static_cast<double>(peak_resident_bytes()), "B");
  add("peak_device_memory", static_cast<double>(summary.device_bytes), "B");
  return result;
}

}  // namespace emblem
