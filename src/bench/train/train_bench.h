// bench/train/train_bench.h - how fast a training step is, where its time goes, and what share of
// the machine's limit that is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "bench/train/dlrm_workload.h"
#include "config/pipeline.pb.h"
#include "core/context.h"
#include "train/early_stopping.h"

namespace emblem {

class Trace;

enum class BenchInput {
  kDevice,  // batches lie in device memory before the clock starts
  kMemory,  // in host memory
  kFiles,   // in Raw files, read by the loader
};

struct TrainBenchOptions {
  std::string preset = "dlrm-kaggle";
  std::vector<int64_t> batches;           // empty: the preset's
  std::vector<int64_t> dims = {16, 128};  // of dlrm-kaggle
  int64_t divide_tables = 1;              // tables of this fraction of the rows
  BenchTables tables = BenchTables::kStatic;
  std::string optimizer;  // empty: the preset's
  BenchInput input = BenchInput::kDevice;
  std::string data;               // folder of the files, synthesized where it does not exist
  int64_t data_rows = 4'000'000;  // then
  int64_t device_bytes = 0;       // for rows; 0: all in device memory
  int64_t host_bytes = 0;         // that a training on the CPU may take; see bench/train/room.h
  double seconds = 5.0;           // timed, at least, for each combination
  int64_t steps = 30;             // timed, at least
  int64_t warmup = 5;
  int64_t distinct_batches = 0;  // generated ahead and used in turn; 0: 32, or 16 of large ones
  double alpha = 1.05;
  uint64_t seed = 1;
  Trace* trace = nullptr;              // gets a timeline of the timed steps
  std::vector<std::string> overrides;  // of the preset's configuration
  std::optional<StopAt> until;         // train from files until an evaluation reaches it, instead
  int64_t eval_every = 0;              // steps; 0: 20 times an epoch, or as the configuration says
};

// "dlrm-kaggle", "sok-dlrm", "dle-dlrm", "mlperf-dcnv2", and criteo_models().
const std::vector<std::string>& train_presets();
// The batch sizes that it is usually run with.
const std::vector<int64_t>& preset_batches(const std::string& preset);

// One result for each combination of batch and, of dlrm-kaggle, dim.
std::vector<BenchResult> bench_train(const Context& context, const TrainBenchOptions& options);

// A pipeline as it is, files and loader included.
BenchResult bench_pipeline(const Context& context, const config::PipelineConfig& config,
                           const TrainBenchOptions& options);

// One step, to see whether it fits into memory: throws Error (kOutOfMemory) or std::bad_alloc where
// it does not. Of the first combination of a preset, or of a pipeline.
void try_train(const Context& context, const TrainBenchOptions& options);
void try_pipeline(const Context& context, const config::PipelineConfig& config,
                  const TrainBenchOptions& options);

}  // namespace emblem
