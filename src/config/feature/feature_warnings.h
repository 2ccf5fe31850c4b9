// config/feature/feature_warnings.h - settings of features that are read and have no effect where
// they are.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

// `features "a", "b" and 3 more`
std::string feature_list(const std::vector<std::string>& names);

// One line for each setting, with the features that have it.
std::vector<std::string> feature_warnings(const config::PipelineConfig& config,
                                          const FeatureLayout& layout);

}  // namespace emblem
