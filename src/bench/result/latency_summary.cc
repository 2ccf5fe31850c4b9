#include "bench/result/latency_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace emblem {

double percentile(std::span<const double> sorted, double quantile) {
  if (sorted.empty()) return 0;
  // 0.99 * 100 is slightly above 99 in floating point; it must not select the 100th value.
  const double rank = std::ceil(quantile * static_cast<double>(sorted.size()) - 1e-9);
  const auto at = static_cast<size_t>(std::max(1.0, rank)) - 1;
  return sorted[std::min(at, sorted.size() - 1)];
}

LatencySummary summarize(std::vector<double> latencies) {
  LatencySummary summary;
  if (latencies.empty()) return summary;
  std::sort(latencies.begin(), latencies.end());
  summary.count = static_cast<int64_t>(latencies.size());
  summary.mean = std::accumulate(latencies.begin(), latencies.end(), 0.0) /
                 static_cast<double>(latencies.size());
  summary.p50 = percentile(latencies, 0.5);
  summary.p90 = percentile(latencies, 0.9);
  summary.p95 = percentile(latencies, 0.95);
  summary.p99 = percentile(latencies, 0.99);
  summary.p999 = percentile(latencies, 0.999);
  summary.max = latencies.back();
  return summary;
}

bool is_stable(std::span<const LoadWindow> windows, size_t needed, double tolerance) {
  if (windows.size() < needed || needed == 0) return false;
  const auto last = windows.last(needed);
  const auto within = [&](auto value_of) {
    double mean = 0;
    for (const LoadWindow& window : last) mean += value_of(window) / static_cast<double>(needed);
    return std::all_of(last.begin(), last.end(), [&](const LoadWindow& window) {
      return std::abs(value_of(window) - mean) <= tolerance * mean;
    });
  };
  if (std::any_of(last.begin(), last.end(),
                  [](const LoadWindow& window) { return window.latency.count == 0; }))
    return false;
  return within([](const LoadWindow& window) { return window.rate(); }) &&
         within([](const LoadWindow& window) { return window.latency.mean; });
}

}  // namespace emblem
