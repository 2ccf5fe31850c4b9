// config/check_ranges.h - numbers that are outside of what any pipeline can mean.
#pragma once

#include "config/pipeline.pb.h"

namespace emblem {

// Throws Error that names the field: layers wider and parts of a model more numerous than can be
// computed, and numbers that are not finite.
void check_ranges(const config::PipelineConfig& config);

}  // namespace emblem
