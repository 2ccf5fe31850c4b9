// config/print.h - a pipeline as text that load_pipeline reads back.
#pragma once

#include <string>

#include "config/pipeline.pb.h"

namespace emblem {

// Every float is written with the digits that give the same number back.
std::string to_text(const config::PipelineConfig& config);

// The same for a pipeline.config that has to keep its meaning: with semantics_version and fg_mode
// (config/semantics.h).
std::string to_stored_text(config::PipelineConfig config);

}  // namespace emblem
