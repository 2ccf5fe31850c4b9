// train/run/train_options.h - how a training run begins and ends, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "core/system/cancel_token.h"
#include "data/source/storage.h"
#include "train/predict/own_metrics.h"
#include "train/run/early_stopping.h"
#include "train/run/train_callbacks.h"
#include "train/run/world.h"
#include "train/state/warm_start.h"

namespace emblem {

class Trace;

enum class ModelDir { kMustBeNew, kResume };
// What a run writes at its end, besides the checkpoints that the configuration asks for.
enum class LastCheckpoint { kSave, kNone };
// Where the batches come from: from train_input_path, or from the caller (Trainer::step(batch)).
enum class TrainBatches { kRead, kGiven };

struct TrainOptions {
  ModelDir model_dir = ModelDir::kMustBeNew;
  // A checkpoint or model dir whose weights the run begins with; empty: none.
  std::string init_from;
  WarmStart warm_start = WarmStart::kAll;  // with init_from
  TrainBatches batches = TrainBatches::kRead;
  int64_t max_steps = 0;  // 0: as the configuration says
  std::optional<StopAt> stop_at;
  Trace* trace = nullptr;  // gets a timeline; outlives the run
  // Storage of remote data and checkpoints; null: one with the settings of the data.
  Storage storage;
  World world = World::alone();  // all its ranks train together
  LastCheckpoint last_checkpoint = LastCheckpoint::kSave;
  CancelToken cancel;  // the run then ends with a checkpoint
  TrainCallbacks callbacks;
  OwnMetrics own_metrics;  // of every evaluation
};

enum class TrainOutcome { kFinished, kStoppedEarly, kReachedTarget, kInterrupted };

struct TrainSummary {
  TrainOutcome outcome = TrainOutcome::kFinished;
  int64_t steps = 0;              // in all, those before a resume included
  int64_t rows = 0;               // trained in this run
  int64_t bad_rows = 0;           // skipped in this run
  int64_t skipped_steps = 0;      // steps of this run whose gradients overflowed in fp16
  double seconds = 0.0;           // time of this run, evaluations and checkpoints included
  double training_seconds = 0.0;  // without them
  double step_seconds_p50 = 0.0;  // loading included
  double step_seconds_p99 = 0.0;
  double evaluation_seconds = 0.0;  // time of all evaluations
  double last_evaluation_seconds = 0.0;
  int64_t evaluations = 0;
  int64_t device_bytes = 0;              // GPU memory in use at the end
  std::optional<Evaluation> evaluation;  // evaluation of the weights at the end
  std::vector<FeatureLookups> lookups;   // lookups of the training in this run
  std::string checkpoint;                // the last; empty: there is none
};

}  // namespace emblem
