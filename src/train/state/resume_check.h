// train/state/resume_check.h - whether a checkpoint can be used with a configuration: it must not
// change what is learned.
#pragma once

#include <string>

#include "config/proto/pipeline.pb.h"

namespace emblem {

// Throws Error that names the settings in which `config` differs from those that the checkpoint was
// trained with, unless they only say where, how long, how fast or how well watched the run is.
// Input paths of `config` are absolute.
void check_resume(const std::string& checkpoint, const config::PipelineConfig& config);

// For evaluations and predictions: a warning that names the features and parts of the model in
// which `config` differs, as results of weights learned with others mean little.
void warn_of_changes(const std::string& checkpoint, const config::PipelineConfig& config);

}  // namespace emblem
