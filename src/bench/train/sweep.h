// bench/train/sweep.h - measures training with several settings.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/advice.h"

namespace emblem {

struct TrainSetting {
  int64_t batch = 0;         // 0: the pipeline's own
  int64_t dim = 0;           // of embeddings; 0: the workload's own
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
