// bench/infer/infer_bench.h - how long a trained model takes for a batch, lookup included, and what
// share of the machine's limit that is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/dlrm_workload.h"
#include "core/context.h"
#include "core/half.h"
#include "embedding/cache/row_cache_ref.h"

namespace emblem {

struct InferBenchOptions {
  std::vector<int64_t> batches;  // empty: those of the preset
  BenchTables tables = BenchTables::kStatic;
  double seconds = 2.0;  // timed, at least, for each batch size
  int64_t warmup = 20;
  double alpha = 1.05;
  uint64_t seed = 1;
  // On a GPU:
  DType compute = DType::kF32;  // of layers and rows
  double cache_share = 0.2;     // of the rows in device memory; all are in host memory
  CachePolicy cache_policy = CachePolicy::kLru;
  int64_t warm_samples = int64_t{1} << 22;  // looked up before a stream is timed
};

// Presets: the published batch sizes belong to hps-dlrm.
std::vector<int64_t> default_batches(const DlrmShape& shape);

// Two results for each batch size: NAME-bROWS, the same batch again and again, as HPS's benchmark
// does it, and NAME-bROWS-stream, other keys every time. Checks before timing that rows come out
// the same alone and in a batch.
//
// On a GPU a batch is timed from its values being in device memory to the probabilities being in
// host memory, as the published figures are; "end_to_end_p50" is from host memory to host memory.
// Keys of a stream are new in every batch; the cache has seen many others of the same distribution.
std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options);

namespace cuda {
std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options);
}

}  // namespace emblem
