// train/trainer.h - a training run: batches, evaluations and checkpoints until there is a reason to
// stop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/pipeline.pb.h"
#include "core/context.h"
#include "data/source/storage.h"
#include "train/early_stopping.h"
#include "train/evaluation.h"
#include "train/warm_start.h"

namespace emblem {

class Trace;
struct World;

enum class ModelDir { kMustBeNew, kResume };
// What a run writes at its end, besides the checkpoints that the configuration asks for.
enum class LastCheckpoint { kSave, kNone };

struct TrainOptions {
  ModelDir model_dir = ModelDir::kMustBeNew;
  std::string
      init_from;  // a checkpoint or model dir whose weights the run begins with; empty: none
  WarmStart warm_start = WarmStart::kAll;  // with init_from
  int64_t max_steps = 0;                   // 0: as the configuration says
  std::optional<StopAt> stop_at;
  Trace* trace = nullptr;  // gets a timeline; outlives the run
  Storage storage;  // of remote data and checkpoints; null: one with the settings of the data
  const World* world =
      nullptr;  // the run is one of several ranks, which all call train; outlives it
  LastCheckpoint last_checkpoint = LastCheckpoint::kSave;
  std::function<void()>
      after_saving;  // of rank 0: called when checkpoints or deltas were written; may be empty
};

enum class TrainOutcome { kFinished, kStoppedEarly, kReachedTarget, kInterrupted };

struct TrainSummary {
  TrainOutcome outcome = TrainOutcome::kFinished;
  int64_t steps = 0;              // in all, those before a resume included
  int64_t rows = 0;               // trained in this run
  int64_t bad_rows = 0;           // skipped in this run
  int64_t skipped_steps = 0;      // of this run, whose gradients overflowed in fp16
  double seconds = 0.0;           // of this run, evaluations and checkpoints included
  double training_seconds = 0.0;  // without them
  double step_seconds_p50 = 0.0;  // loading included
  double step_seconds_p99 = 0.0;
  double evaluation_seconds = 0.0;  // of all evaluations
  double last_evaluation_seconds = 0.0;
  int64_t evaluations = 0;
  int64_t device_bytes = 0;              // of the GPU's memory that are in use at the end
  std::optional<Evaluation> evaluation;  // of the weights at the end
  std::vector<FeatureLookups> lookups;   // of the training in this run
  std::string checkpoint;                // the last; empty: there is none
};

// Before check_pipeline, for a run that begins with a checkpoint, its own or that of init_from:
// lets `config` mean what the checkpoint was trained with (config/semantics.h). Throws Error when
// it asks for something else.
void adopt_trained_semantics(const TrainOptions& options, config::PipelineConfig* config);

// Trains as `config`, which has passed check_pipeline, says. Writes checkpoints, event files and
// results into config.model_dir(), which is locked meanwhile; nothing is written before everything
// is checked and loaded. When interrupted() it ends with a checkpoint.
TrainSummary train(const Context& context, const config::PipelineConfig& config,
                   const TrainOptions& options);

}  // namespace emblem
