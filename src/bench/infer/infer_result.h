// bench/infer/infer_result.h - the result of an inference benchmark, on any device.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

struct InferRun {
  std::string name;
  int64_t rows = 0;             // of a batch
  std::vector<double> seconds;  // of each batch
  Named<Setting> settings;      // in addition to "batch", "runs" and "references"
};

// With latency percentiles, the slowest batch and samples/s.
BenchResult infer_result(InferRun run);

// The quantile `share` of sorted values.
double percentile(const std::vector<double>& sorted, double share);

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace emblem
