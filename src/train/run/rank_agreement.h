// train/run/rank_agreement.h - what all ranks of a job must have alike, compared before it begins.
// Every function is collective, and throws on all ranks where it throws on one. One rank agrees
// with itself: nothing is read.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "config/proto/pipeline.pb.h"
#include "data/source/storage.h"
#include "train/run/world.h"

namespace emblem {

// The same files to train and to evaluate on: their names, sizes, first and last 64 KiB; of objects
// what the store says of them (size, ETag), and the checksums of data sets that Emblem wrote.
void require_same_data(const World& world, const config::PipelineConfig& config,
                       const Storage& storage);
void require_same_input(const World& world, const std::string& input, const Storage& storage);

// The same files as `then`, when the run stopped; absent: not known, or it does not matter.
void require_files_of_run(const World& world, const std::optional<InputFiles>& then,
                          const std::optional<InputFiles>& now, const std::string& input);

// The same content of the files that features read (config/load/assets.h).
void require_same_files(const World& world, const config::PipelineConfig& config);
// The same content of the files that data_config.negative_sampler reads.
void require_same_samples(const World& world, const config::PipelineConfig& config);

// The same checkpoint to begin with, by its name and its manifest, which has the checksums of its
// files; empty: none.
void require_same_start(const World& world, const std::string& checkpoint);

// The same checkpoint, by its manifest, and the same configuration and files of features.
void require_same_model(const World& world, const std::string& checkpoint,
                        const config::PipelineConfig& config);

// One folder that all ranks see; it exists on rank 0.
void require_shared_folder(const World& world, const std::string& folder);

}  // namespace emblem
