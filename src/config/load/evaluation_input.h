// config/load/evaluation_input.h - the data that a pipeline is evaluated on.
#pragma once

#include <string>

#include "config/proto/pipeline.pb.h"

namespace emblem {

// Whether rows of train_input_path are held out of training, for evaluations.
bool has_holdout(const config::PipelineConfig& config);

// eval_input_path; with a holdout train_input_path, of which evaluations read the rows held out; ""
// where there is nothing to evaluate on.
std::string evaluation_input(const config::PipelineConfig& config);

}  // namespace emblem
