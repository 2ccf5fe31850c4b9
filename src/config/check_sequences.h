// config/check_sequences.h - whether feature groups of sequences and their encoders fit together.
#pragma once

#include "config/features.h"

namespace emblem {

// Throws Error with one line.
void check_sequences(const config::PipelineConfig& config, const FeatureLayout& layout);

// Columns that a feature adds to its group.
int64_t width_of(const FeatureSpec& feature);

}  // namespace emblem
