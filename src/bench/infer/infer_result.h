// bench/infer/infer_result.h - the result of an inference benchmark, on any device.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bench/infer/infer_bench.h"
#include "bench/result/result.h"
#include "config/load/load.h"
#include "core/system/seconds_since.h"
#include "model/model.h"

namespace emblem {

// The pipeline whose model is benchmarked.
inline config::PipelineConfig pipeline_of(const DlrmShape& shape, int64_t rows, BenchTables tables,
                                          DType compute) {
  auto config = parse_pipeline(dlrm_pipeline(shape, rows, tables), "preset " + shape.name);
  config.mutable_train_config()->set_mixed_precision(mixed_precision_of(compute));
  return config;
}

// The seconds of each call of `body`: 20 calls or more, for `seconds`.
template <class Body>
std::vector<double> time_calls(double seconds, Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> times;
  while (times.size() < 20 || seconds_since(start) < seconds) {
    const auto before = std::chrono::steady_clock::now();
    body();
    times.push_back(seconds_since(before));
  }
  return times;
}

struct InferRun {
  std::string name;
  int64_t rows = 0;             // rows of a batch
  std::vector<double> seconds;  // time of each batch
  Named<Setting> settings;      // in addition to "batch", "runs" and "references"
};

// The result with latency percentiles, the slowest batch and samples/s.
BenchResult infer_result(InferRun run);

}  // namespace emblem
