// bench/loader_bench.h - how fast batches come from files.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/result.h"
#include "config/pipeline.pb.h"
#include "core/context.h"

namespace emblem {

struct LoaderBenchOptions {
  std::vector<int> workers = {1, 2};
  std::vector<int64_t> batches = {};  // empty: the configuration's batch size
  double seconds = 3.0;               // timed, at least, for each combination
};

// Reads the training input over and over; one result for each combination. The first pass over the
// files is not timed, so that they come from the page cache where they fit.
std::vector<BenchResult> bench_loader(const Context& context, const config::PipelineConfig& config,
                                      const LoaderBenchOptions& options);

}  // namespace emblem
