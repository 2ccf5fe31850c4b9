// config/no_effect.h - fields of TorchEasyRec's schema that Emblem reads and has no use for.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

// Those that `config` sets to something else than their default, each with the reason:
// "data_config.pin_memory (memory is pinned where a GPU trains)".
std::vector<std::string> settings_without_effect(const config::PipelineConfig& config);

}  // namespace emblem
