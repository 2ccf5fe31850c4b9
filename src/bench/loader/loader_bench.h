// bench/loader/loader_bench.h - the speed of loading batches from files under several settings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loader/advice.h"
#include "bench/loader/run.h"
#include "bench/loader/setting.h"
#include "bench/result/result.h"
#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"

namespace emblem {

// The cost of loading for training: the same steps with batches from the loader and with batches in
// memory.
struct LoadedTraining {
  double loaded_rate = 0;            // samples/s, batches from the loader
  double resident_rate = 0;          // samples/s, batches in memory
  double copy_bytes_per_second = 0;  // rate of copies of batches to the device; 0 on a CPU

  // The share of training time in which the device waited for the loader.
  double idle_share() const;
};

// Trains for about `seconds` in total, alternating with and without the loader.
LoadedTraining train_with_loader(const Context& context, const config::PipelineConfig& config,
                                 const FeatureLayout& layout, const LoaderSetting& setting,
                                 double seconds);

struct LoaderBenchOptions {
  LoaderAxes axes;
  LoaderRunLimits limits;
  // Measurements per setting; settings alternate, so that temporary load affects all of them.
  int rounds = 3;
  // Above 0: trains for this time with the recommended setting to measure the cost of loading.
  double training_seconds = 0;
};

struct LoaderBench {
  std::vector<LoaderSetting> settings;
  std::vector<BenchResult>
      results;  // one per setting; the recommended one has the setting "advice"
  LoaderAdvice advice;
  std::string reason;    // reason for the advice, as text
  std::string fragment;  // config_fragment of the recommended setting
};

// Reads the training input, or the inputs of the axes, repeatedly with each setting. `progress` is
// called with a description of each measurement; it may be empty.
LoaderBench bench_loader(const Context& context, const config::PipelineConfig& config,
                         const LoaderBenchOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace emblem
