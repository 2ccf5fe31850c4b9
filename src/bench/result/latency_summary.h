// bench/result/latency_summary.h - what a load test measured, in numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace emblem {

// One answered request. Seconds since the load began.
struct LoadSample {
  double ended = 0;
  double latency = 0;   // since it was sent, or since it should have been: see load_loop.h
  double send_lag = 0;  // sent so much later than it should have been
};

struct LatencySummary {
  int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, p999 = 0, max = 0;
};

// The smallest value that a share of `quantile` (0 to 1] of `sorted` does not exceed; 0 for none.
double percentile(std::span<const double> sorted, double quantile);

LatencySummary summarize(std::vector<double> latencies);

// A stretch of a load test.
struct LoadWindow {
  double seconds = 0;
  LatencySummary latency;

  double rate() const { return seconds > 0 ? static_cast<double>(latency.count) / seconds : 0; }
};

// Whether the last `needed` windows are within `tolerance` (0.1: 10 %) of their mean, in the rate
// and in the mean latency alike.
bool is_stable(std::span<const LoadWindow> windows, size_t needed, double tolerance);

}  // namespace emblem
