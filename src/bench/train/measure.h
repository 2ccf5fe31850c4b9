// bench/train/measure.h - times training steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/input.h"
#include "bench/train/train_bench.h"
#include "core/device/gpu_monitor.h"
#include "core/math/half.h"
#include "model/model.h"
#include "train/learner/learner.h"

namespace emblem {

// The work of one step on a table, independent of the implementation.
struct TableWork {
  int64_t dim = 0, state_floats = 0;  // columns, and floats of optimizer state, of a row
  double bags = 0;                    // pooled vectors
  double lookups = 0;                 // keys
  double unique_rows = 0;             // distinct rows among them: each is read and updated once
};

// The work of one batch for every table of the model.
std::vector<TableWork> table_work(const Context& context, const Model& model,
                                  const ModelBatch& batch);

double unique_rows(std::span<const TableWork> work);

// The fewest bytes read from and written to device memory: rows are read; gradients of bags, in the
// precision of the model, are written and read; weights and optimizer state of rows are read and
// written; keys are read. Activations are not counted: the measured speed of matrix products
// includes their traffic.
double least_table_bytes(std::span<const TableWork> work, DType precision);

// Additional measurements of a training step.
struct StepProbe {
  // The share of each stage that does not depend on the batch, 0 to 1: its time for one row.
  StageSeconds fixed_share;
  double resident_step = 0;  // on a GPU: seconds of a step whose batch is in device memory
  double batch_bytes = 0;
  double loss_seconds = 0;   // time of a forward pass
  double gradient_norm = 0;  // norm over dense weights and embeddings together, before clipping
};

// Runs further training steps on `batch` and on its first row.
StepProbe probe_step(Learner& learner, const ModelBatch& batch);

struct MeasuredTraining {
  std::vector<double> step_seconds;  // measured on the host
  StageSeconds stages;               // stages of `staged_steps`
  int64_t staged_steps = 0;
  double load_seconds = 0.0, transfer_seconds = 0.0;  // time that steps waited for batches
  double total_seconds = 0.0;
  double cpu_seconds = 0.0;  // CPU time of all threads
  double first_loss = 0.0, last_loss = 0.0;
  int64_t rows = 0;
  double forward_flops = 0.0;  // operations in matrix products and the like of all steps
  int64_t peak_bytes = 0;      // peak of host memory up to the last step
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
