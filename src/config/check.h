// config/check.h - whether the settings of a pipeline make sense together.
#pragma once

#include "config/pipeline.pb.h"

namespace emblem {

// Throws Error at the first setting that is missing, out of range or in conflict with another.
// `config` has its runs expanded. What only a model or a reader can judge is left to them; so is
// whether files exist.
void check_pipeline(const config::PipelineConfig& config);

}  // namespace emblem
