// model/check/check.h - whether the settings of a pipeline make sense together.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

// Throws Error at the first setting that is missing, out of range or in conflict with another.
// `config` has its runs expanded. What only a model or a reader can judge is left to them; so is
// whether files exist.
void check_pipeline(const config::PipelineConfig& config);

// Settings of a pipeline that passed check_pipeline which have no effect, or may not have the
// expected one: a line each.
std::vector<std::string> pipeline_warnings(const config::PipelineConfig& config);

}  // namespace emblem
