// bench/train/measure.h - times training steps.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/floor.h"
#include "bench/train/input.h"
#include "bench/train/probe.h"
#include "bench/train/train_bench.h"
#include "core/gpu_monitor.h"
#include "train/learner.h"

namespace emblem {

struct MeasuredTraining {
  std::vector<double> step_seconds;  // measured on the host
  StageSeconds stages;               // of `staged_steps`
  int64_t staged_steps = 0;
  double load_seconds = 0.0, transfer_seconds = 0.0;  // time that steps waited for batches
  double total_seconds = 0.0;
  double cpu_seconds = 0.0;  // of all threads
  double first_loss = 0.0, last_loss = 0.0;
  int64_t rows = 0;
  double forward_flops = 0.0;  // of the matrix products and the like of all steps
  int64_t peak_bytes = 0;      // of host memory, up to the last step
  int64_t gpu_bytes = 0;       // in use, by all processes
  std::optional<GpuUse> gpu;
  StepProbe probe;
};

// Runs steps until both minimums of the options, steps and seconds, are reached or the input ends.
MeasuredTraining measure_training(Learner& learner, const TrainBenchOptions& options,
                                  const std::string& name, TrainInput& input);

// Limits of the hardware. Its buffers do not count in peak_resident_bytes() afterwards.
Named<double> measure_training_ceilings(const Context& context, int64_t dim, DType precision);

// The 10th, 50th and 99th percentile of the seconds of steps, as metrics.
void add_step_percentiles(const std::vector<double>& seconds, BenchResult& result);

BenchResult training_result(const std::string& name, Learner& learner, DType precision,
                            const MeasuredTraining& found, const Named<double>& ceilings,
                            std::span<const TableWork> work);

}  // namespace emblem
