// bench/infer_bench.h - how long a trained model takes for a batch, lookup included, and what share
// of the machine's limit that is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/dlrm_workload.h"
#include "bench/result.h"
#include "core/context.h"

namespace emblem {

struct InferBenchOptions {
  std::vector<int64_t> batches;  // empty: those of the preset
  BenchTables tables = BenchTables::kStatic;
  double seconds = 2.0;  // timed, at least, for each batch size
  int64_t warmup = 20;
  double alpha = 1.05;
  uint64_t seed = 1;
};

// Presets: the published batch sizes belong to hps-dlrm.
std::vector<int64_t> default_batches(const DlrmShape& shape);

// Two results for each batch size: NAME-bROWS, the same batch again and again, as HPS's benchmark
// does it, and NAME-bROWS-stream, other keys every time. Checks before timing that rows come out
// the same alone and in a batch.
std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options);

}  // namespace emblem
