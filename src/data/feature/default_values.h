// data/feature/default_values.h - what stands for a missing value of a feature.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

struct DefaultValues {
  const char* setting = "";        // "default_value" or "fg_encoded_default_value"
  std::vector<std::string> texts;  // none: a missing value stays missing
};

// Under FG_NONE fg_encoded_default_value, parted by fg_encoded_multival_sep; else default_value,
// parted by the feature's separator. Of sequences an empty default_value is "0", as in
// TorchEasyRec.
DefaultValues default_values_of(const FeatureSpec& feature, const Semantics& semantics,
                                const config::DataConfig& data);

}  // namespace emblem
