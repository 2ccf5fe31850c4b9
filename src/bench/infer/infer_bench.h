// bench/infer/infer_bench.h - the latency of a trained model per batch, including lookups, and its
// share of the machine's limits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/dlrm_workload.h"
#include "core/device/context.h"
#include "core/math/half.h"
#include "embedding/cache/row_cache_ref.h"

namespace emblem {

struct InferBenchOptions {
  std::vector<int64_t> batches;  // empty: those of the preset
  BenchTables tables = BenchTables::kStatic;
  double seconds = 2.0;  // timed, at least, per batch size
  int64_t warmup = 20;
  double alpha = 1.05;
  uint64_t seed = 1;
  // On a GPU:
  DType compute = DType::kF32;  // type of layers and rows
  double cache_share = 0.2;     // share of the rows cached in device memory
  CachePolicy cache_policy = CachePolicy::kLru;
  int64_t warm_samples = int64_t{1} << 22;  // looked up before a stream is timed
};

// The default batch sizes of a preset; those of hps-dlrm are the published ones.
std::vector<int64_t> default_batches(const DlrmShape& shape);

// Two results per batch size: NAME-bROWS repeats one batch, as HPS's benchmark does;
// NAME-bROWS-stream has other keys in every batch. Checks before timing that a row gives the same
// result alone and in a batch.
//
// On a GPU a batch is timed from its values in device memory to the probabilities in host memory,
// as in the published figures; "end_to_end_p50" is from host memory to host memory. Keys of a
// stream are new in every batch; the cache is warmed with other batches of the same distribution.
std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options);

namespace cuda {
std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options);
}

}  // namespace emblem
