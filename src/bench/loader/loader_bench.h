// bench/loader/loader_bench.h - how fast batches come from files, and with which settings.
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
  // Every setting is measured so often, in turn with all others: what disturbs the machine for a
  // while disturbs all of them.
  int rounds = 3;
  // Above 0: trains for so long with the recommended setting, to say what loading costs.
  double training_seconds = 0;
};

struct LoaderBench {
  std::vector<LoaderSetting> settings;
  std::vector<BenchResult> results;  // one a setting; the recommended one has the setting "advice"
  LoaderAdvice advice;
  std::string reason;    // for the advice, in words
  std::string fragment;  // config_fragment of the recommended setting
};

// Reads the training input, or the inputs named, over and over with each of the settings.
// `progress` is told in words what is being measured; it may be empty.
LoaderBench bench_loader(const Context& context, const config::PipelineConfig& config,
                         const LoaderBenchOptions& options,
                         const std::function<void(const std::string&)>& progress);

}  // namespace emblem
