// config/check_heads.h - whether towers, labels, losses and metrics of a model fit together.
#pragma once

#include "config/features.h"

namespace emblem {

// Throws Error with one line.
void check_heads(const config::PipelineConfig& config, const FeatureLayout& layout);

}  // namespace emblem
