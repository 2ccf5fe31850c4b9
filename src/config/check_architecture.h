// config/check_architecture.h - whether the parts of a model fit each other and its groups.
#pragma once

#include "config/features.h"

namespace emblem {

// Throws Error with one line. Groups and their features have been checked.
void check_architecture(const config::PipelineConfig& config, const FeatureLayout& layout);

}  // namespace emblem
