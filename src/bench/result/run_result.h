// bench/result/run_result.h - a training run as a benchmark result.
#pragma once

#include <string>

#include "bench/result/result.h"
#include "train/run/train_options.h"

namespace emblem {

// The metrics of the last evaluation, then speed and memory: samples_per_second, step_seconds_p50,
// step_seconds_p99, evaluation_seconds, peak_memory and, on a GPU, peak_device_memory.
BenchResult result_of_run(const TrainSummary& summary, const std::string& name);

}  // namespace emblem
