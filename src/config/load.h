// config/load.h - reads a pipeline file.
#pragma once

#include <span>
#include <string>

#include "config/pipeline.pb.h"

namespace emblem {

using config::PipelineConfig;

// Parses protobuf text from `path`, applies `overrides` ("a.b[0].c=value", in order) and expands
// runs of alike features. Throws Error with one line: FILE:LINE:COLUMN, what is wrong, the nearest
// valid name. Files of features that a checkpoint has copies of (config/assets.h) are those beside
// `path`.
PipelineConfig load_pipeline(const std::string& path, std::span<const std::string> overrides = {});

// The same for text that is already in memory; `name` stands for the file in messages.
PipelineConfig parse_pipeline(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides = {});

// The pipeline.config in `folder`, a checkpoint or an exported model. One without semantics_version
// is of version 1 (config/semantics.h).
PipelineConfig load_stored_pipeline(const std::string& folder,
                                    std::span<const std::string> overrides = {});

}  // namespace emblem
