// config/feature_inputs.h - what a feature reads: "user:age", "feature:x", "const:1".
#pragma once

#include <vector>

#include "config/feature_expansion.h"
#include "config/features.h"

namespace emblem {

// In the order of FeatureSettings::expressions. Under FG_NONE and FG_BUCKETIZE a feature reads the
// column that has its name. Inputs of a sequence_feature that are sequences have its prefix.
// Throws Error for expressions without a name, and features without inputs.
std::vector<FeatureInput> inputs_of(const ExpandedFeature& feature, const FeatureSettings& settings,
                                    config::FgMode mode);

}  // namespace emblem
