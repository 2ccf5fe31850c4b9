// train/report/run_setup.h - what is checked before a run takes memory and time.
#pragma once

#include <optional>
#include <string>

#include "config/proto/pipeline.pb.h"
#include "train/run/train_options.h"

namespace emblem {

// The configuration with paths that do not depend on the current folder, so that a checkpoint can
// be evaluated from anywhere.
config::PipelineConfig with_absolute_paths(config::PipelineConfig config);

// The configuration, once everything that a run will need later turns out to be there: inputs,
// metrics that are evaluated, schedules. The types of the training data's columns are recorded in
// it (data/feature/column_types.h). Throws Error.
config::PipelineConfig check_run(config::PipelineConfig config, const TrainOptions& options);

// Rows of a batch that is learned at once: of a shard, on several ranks. Throws Error where
// global_batch_size is not a multiple of the shards.
int64_t training_batch_size(const config::PipelineConfig& config, const World& world);

// The checkpoint whose weights a new run begins with (--init-from or fine_tune_checkpoint); empty:
// none.
std::string checkpoint_to_begin_with(const config::PipelineConfig& config,
                                     const TrainOptions& options);

// Called before check_pipeline, for a run that begins with a checkpoint, its own or that of
// init_from: lets `config` mean what the checkpoint was trained with (config/check/semantics.h).
// Throws Error when it asks for something else.
void adopt_trained_semantics(const TrainOptions& options, config::PipelineConfig* config);

// The same for a configuration that does not say which semantics it has.
config::PipelineConfig with_trained_semantics(config::PipelineConfig config,
                                              const TrainOptions& options);

// The checkpoint to continue; nothing for a new run. Throws Error where a new run would overwrite
// checkpoints, where none of them can be read, and where settings have changed that must not.
std::optional<std::string> checkpoint_to_resume(const config::PipelineConfig& config,
                                                const TrainOptions& options);

}  // namespace emblem
