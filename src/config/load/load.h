// config/load/load.h - reads a pipeline file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

// ---- "c{1..26}" stands for c1, c2, ... c26 ----

// All names that `text` stands for: itself when it has no braces. "{01..12}" keeps its zeros.
// Throws Error.
std::vector<std::string> expand_run(const std::string& text);

// Replaces every run in feature_configs, feature_groups and input_fields by what it stands for.
void expand_runs(config::PipelineConfig* config);

// A pipeline as text that load_pipeline reads back. Every float is written with the digits that
// give the same number back.
std::string to_text(const config::PipelineConfig& config);

// The same for a pipeline.config that has to keep its meaning: with semantics_version and fg_mode
// (config/check/semantics.h).
std::string to_stored_text(config::PipelineConfig config);

using config::PipelineConfig;

// Parses protobuf text from `path`, applies `overrides` ("a.b[0].c=value", in order) and expands
// runs of alike features. Throws Error with one line: FILE:LINE:COLUMN, what is wrong, the nearest
// valid name. Files of features that a checkpoint has copies of (config/load/assets.h) are those
// beside `path`.
PipelineConfig load_pipeline(const std::string& path, std::span<const std::string> overrides = {});

// The same for text that is already in memory; `name` stands for the file in messages.
PipelineConfig parse_pipeline(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides = {});

// The pipeline.config in `folder`, a checkpoint or an exported model. One without semantics_version
// is of version 1 (config/check/semantics.h).
PipelineConfig load_stored_pipeline(const std::string& folder,
                                    std::span<const std::string> overrides = {});

}  // namespace emblem
