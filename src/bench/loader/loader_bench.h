// bench/loader/loader_bench.h - the speed of loading batches from files under several settings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/loader/advice.h"
#include "bench/loader/run.h"
#include "bench/loader/setting.h"
#include "bench/result/result.h"
#include "config/pipeline.pb.h"
#include "core/context.h"

namespace emblem {

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
  std::string reason;    // of the advice, as text
  std::string fragment;  // config_fragment of the recommended setting
};

// Reads the training input, or the inputs of the axes, repeatedly with each setting. `progress` is
// called with a description of each measurement; it may be empty.
LoaderBench bench_loader(const Context& context, const config::PipelineConfig& config,
                         const LoaderBenchOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace emblem
