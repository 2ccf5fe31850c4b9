// bench/result/latency_summary.h - samples of a load test and their percentiles.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace emblem {

// One answered request. Times are seconds since the start of the load.
struct LoadSample {
  double ended = 0;
  double latency = 0;   // since it was sent (closed loop) or due (open loop): bench/load/loop.h
  double send_lag = 0;  // how late it was sent
};

struct LatencySummary {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, p999 = 0, max = 0;
};

// The smallest value v of `sorted` such that a share of `quantile` (0 to 1] is <= v; 0 if empty.
double percentile(std::span<const double> sorted, double quantile);

LatencySummary summarize(std::vector<double> latencies);

// One measuring window of a load test.
struct LoadWindow {
  double seconds = 0;
  LatencySummary latency;

  double rate() const { return seconds > 0 ? static_cast<double>(latency.count) / seconds : 0; }
};

// Whether the rate and the mean latency of each of the last `needed` windows are within `tolerance`
// (0.1: 10 %) of their means.
bool is_stable(std::span<const LoadWindow> windows, size_t needed, double tolerance);

}  // namespace emblem
