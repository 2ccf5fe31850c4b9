// config/runs.h - "c{1..26}" stands for c1, c2, ... c26.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

// All names that `text` stands for: itself when it has no braces. "{01..12}" keeps its zeros.
// Throws Error.
std::vector<std::string> expand_run(const std::string& text);

// Replaces every run in feature_configs, feature_groups and input_fields by what it stands for.
void expand_runs(config::PipelineConfig* config);

}  // namespace emblem
