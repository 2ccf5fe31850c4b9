// bench/train_bench.h - how fast a training step is, where its time goes, and what share of the
// machine's limit that is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/dlrm_workload.h"
#include "bench/result.h"
#include "config/pipeline.pb.h"
#include "core/context.h"

namespace emblem {

struct TrainBenchOptions {
  std::vector<int64_t> batches = {2048, 8192};
  std::vector<int64_t> dims = {16, 128};
  BenchTables tables = BenchTables::kStatic;
  double seconds = 5.0;  // timed, at least, for each combination
  int64_t steps = 30;    // timed, at least
  int64_t warmup = 5;
  int64_t distinct_batches = 32;  // generated ahead and used in turn
  double alpha = 1.05;
  uint64_t seed = 1;
  std::vector<std::string> overrides;  // of the preset's configuration
};

// Preset dlrm-kaggle: one result for each combination of batch and dim, with generated batches.
std::vector<BenchResult> bench_kaggle(const Context& context, const TrainBenchOptions& options);

// A pipeline as it is, files and loader included.
BenchResult bench_pipeline(const Context& context, const config::PipelineConfig& config,
                           const TrainBenchOptions& options);

}  // namespace emblem
