// config/unsupported.h - settings of TorchEasyRec that Emblem reads, but cannot act on.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

// The models that Emblem trains, by their field in model_config.
std::vector<std::string> supported_models();

// Throws Error with one line that names the setting and what to do instead.
void refuse_unsupported(const config::PipelineConfig& config);

}  // namespace emblem
