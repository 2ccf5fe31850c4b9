#include "bench/infer/infer_result.h"

#include <algorithm>
#include <numeric>

#include "bench/result/sample_statistics.h"
#include "core/system/process.h"

namespace emblem {

BenchResult infer_result(InferRun run) {
  std::sort(run.seconds.begin(), run.seconds.end());
  const double total = std::accumulate(run.seconds.begin(), run.seconds.end(), 0.0);
  BenchResult result = begin_result("infer", std::move(run.name));
  result.settings = {{"batch", run.rows}, {"runs", static_cast<int64_t>(run.seconds.size())}};
  for (auto& setting : run.settings) result.settings.push_back(std::move(setting));
  result.settings.push_back({"references", std::vector<std::string>{"hps-dlrm-inference"}});
  const double middle = percentile(run.seconds, 0.75) - percentile(run.seconds, 0.25);
  result.metrics = {
      {"latency_p50", {percentile(run.seconds, 0.5), "s", Better::kLower, middle}},
      {"latency_p99", {percentile(run.seconds, 0.99), "s", Better::kLower}},
      {"latency_max", {run.seconds.back(), "s", Better::kLower}},
      {"samples_per_second",
       {static_cast<double>(run.rows * static_cast<int64_t>(run.seconds.size())) / total,
        "samples/s", Better::kHigher}},
      {"peak_memory", {static_cast<double>(peak_resident_bytes()), "B", Better::kLower}}};
  return result;
}

}  // namespace emblem
