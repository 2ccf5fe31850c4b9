// bench/train/sweep.h - measures training with several settings.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// The largest batch that fits into memory.
struct LargestBatch {
  int64_t batch = 0;                // 0: not even one row fits
  bool limited = false;             // the limit of the search was reached, not that of memory
  std::vector<std::string> failed;  // one line per attempt that did not fit
};

// Doubles the batch from `first` on until one does not fit or `limit` is reached, then bisects
// until the gap is 1/32 of the batch or less. attempt(batch) trains with the batch and throws Error
// (kOutOfMemory) or std::bad_alloc if that does not fit. Other errors end the search.
LargestBatch find_largest_batch(int64_t first, int64_t limit,
                                const std::function<void(int64_t)>& attempt);

// The current exception as one line; rethrows errors that are not about memory. Call in a handler.
std::string out_of_memory_line();

struct BatchRate {
  int64_t batch = 0;
  double rate = 0;  // samples/s
};

// The knee of the curve: the smallest batch such that no larger one measured is faster by 5 % per
// doubling. None if only the largest batch qualifies: larger batches may be faster still.
inline constexpr double kKneeGain = 0.05;
std::optional<int64_t> find_knee(std::vector<BatchRate> rates);

struct TrainAdvice {
  size_t recommended = 0;  // index into the list of results
  std::optional<int64_t> knee;
  std::string reason;  // as text
};

// One recommendation per workload (embedding dimension) that was measured with more than one
// setting. A combination of precision, threads and placement is rated at its knee, or at its
// largest batch if it has none. Recommended is, among those within 3 % of the best, the one with
// the fewest threads, then the widest precision, then the least device memory.
std::vector<TrainAdvice> advise_training(const std::vector<BenchResult>& results);

// The settings of a result as a fragment of a pipeline file, with the reason in a comment.
std::string train_fragment(const BenchResult& result, const std::string& reason);

struct TrainSetting {
  int64_t batch = 0;         // 0: the pipeline's own
  int64_t dim = 0;           // dimension of embeddings; 0: the workload's own
  std::string precision;     // empty: the pipeline's own
  int threads = 0;           // 0: the pipeline's own, or one for each CPU
  int64_t device_bytes = 0;  // cache for rows; 0: all rows in device memory

  std::string text() const;  // "batch 2048, dim 16, 2 threads"
};

// Values to combine; an empty list is the default.
struct TrainAxes {
  std::vector<int64_t> batches, dims;
  std::vector<std::string> precisions;
  std::vector<int> threads;
  std::vector<int64_t> device_bytes;
};

// All combinations; the batch varies fastest.
std::vector<TrainSetting> train_settings(const TrainAxes& axes);

struct TrainSweep {
  std::vector<BenchResult> results;  // the recommended ones have the setting "advice"
  std::vector<TrainAdvice> advice;   // one per workload
  std::vector<std::string> failed;   // one line per setting that did not fit into memory
};

// Measures each setting. One that does not fit into memory (Error kOutOfMemory, std::bad_alloc) is
// recorded in `failed`. Throws if none fits. Names of results are unique per setting.
TrainSweep sweep_training(const std::vector<TrainSetting>& settings,
                          const std::function<BenchResult(const TrainSetting&)>& measure);

}  // namespace emblem
