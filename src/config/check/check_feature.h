// config/check/check_feature.h - whether the settings of one feature make sense.
#pragma once

#include <string>

#include "config/feature/feature_settings.h"

namespace emblem {

// Names become files and folders of checkpoints. `what` names the setting.
void check_file_name(const std::string& name, const std::string& what);

// Throws Error with one line. `in_sequence`: it describes elements of a sequence.
void check_feature(const FeatureSettings& settings, bool in_sequence);

// Throws Error for a feature with stub_type, which batches do not have.
void require_in_batches(const FeatureSettings& settings);

}  // namespace emblem
