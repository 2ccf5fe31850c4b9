// train/state/input_files.h - which files a run reads: a run that stopped within an epoch continues
// at its place in them.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "config/proto/pipeline.pb.h"
#include "data/source/storage.h"

namespace emblem {

// None for streams and rows in memory.
std::optional<InputFiles> input_files_of(const config::PipelineConfig& config,
                                         const Storage& storage);

// "2 files with 1234 bytes"
std::string to_text(const InputFiles& files);

}  // namespace emblem
