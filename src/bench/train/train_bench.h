// bench/train/train_bench.h - the speed of a training step, its stages, and its share of the
// machine's limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/dlrm_workload.h"
#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "train/run/early_stopping.h"

namespace emblem {

// The size of a training run.
struct TrainDemand {
  int64_t rows = 0;             // rows of a batch
  int64_t batches = 1;          // in memory at the same time
  double keys_per_feature = 1;  // per row
};

// Throws Error (kOutOfMemory) if training on the CPU would need more than `limit` bytes, estimated
// before anything is allocated, so that the machine does not swap and the process is not killed. A
// limit of 0 is 90 % of the available memory. Does nothing on a GPU, where the allocator reports
// it.
void require_host_memory(const Context& context, const config::PipelineConfig& config,
                         const FeatureLayout& layout, const TrainDemand& demand, int64_t limit);

class Trace;

enum class BenchInput {
  kDevice,  // batches are in device memory before timing starts
  kMemory,  // in host memory
  kFiles,   // in files, read by the loader
};

struct TrainBenchOptions {
  std::string preset = "dlrm-kaggle";
  std::vector<int64_t> batches;           // empty: the preset's
  std::vector<int64_t> dims = {16, 128};  // dimensions of dlrm-kaggle
  int64_t divide_tables = 1;              // tables with 1/N of the rows
  BenchTables tables = BenchTables::kStatic;
  std::string optimizer;  // empty: the preset's
  BenchInput input = BenchInput::kDevice;
  std::string data;               // folder of the files, generated if it does not exist
  int64_t data_rows = 4'000'000;  // to generate
  int64_t device_bytes = 0;       // cache for rows; 0: all rows in device memory
  int64_t host_bytes = 0;         // limit for training on the CPU; see TrainDemand
  double seconds = 5.0;           // timed, at least, per combination
  int64_t steps = 30;             // timed, at least
  int ranks = 0;                  // threads of this process; 0: a training without ranks
  int64_t warmup = 5;
  int64_t distinct_batches = 0;  // generated beforehand, used round-robin; 0: 32, or 16 large ones
  double alpha = 1.05;
  uint64_t seed = 1;
  Trace* trace = nullptr;              // records the timed steps
  std::vector<std::string> overrides;  // overrides of the preset's configuration
  std::optional<StopAt> until;         // instead, train from files until an evaluation reaches it
  int64_t eval_every = 0;              // steps; 0: 20 times per epoch, or as configured
};

// "dlrm-kaggle", "sok-dlrm", "dle-dlrm", "mlperf-dcnv2", and criteo_models().
const std::vector<std::string>& train_presets();
// The default batch sizes of a preset.
const std::vector<int64_t>& preset_batches(const std::string& preset);

// One result per combination of batch and, for dlrm-kaggle, dim.
std::vector<BenchResult> bench_train(const Context& context, const TrainBenchOptions& options);

// A pipeline: its loader included, or with the first batches of its files in memory.
BenchResult bench_pipeline(const Context& context, const config::PipelineConfig& config,
                           const TrainBenchOptions& options);

// Runs one step of the first combination of a preset, or of a pipeline, to check that it fits into
// memory. Throws Error (kOutOfMemory) or std::bad_alloc if it does not.
void try_train(const Context& context, const TrainBenchOptions& options);
void try_pipeline(const Context& context, const config::PipelineConfig& config,
                  const TrainBenchOptions& options);

}  // namespace emblem
