// config/check_model.h - the parts of check_pipeline about tables and models.
#pragma once

#include "config/features.h"
#include "config/pipeline.pb.h"

namespace emblem {

// Features that share a table must agree on every setting of it. Throws Error.
void check_shared_tables(const config::PipelineConfig& config, const FeatureLayout& layout);

// Groups, losses and networks of the model. Throws Error.
void check_model(const config::PipelineConfig& config, const FeatureLayout& layout);

}  // namespace emblem
