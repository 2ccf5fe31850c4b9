// config/prediction_layout.h - the features that predictions read.
#pragma once

#include "config/features.h"
#include "config/pipeline.pb.h"

namespace emblem {

// `layout`, in which features that only group rows in metrics and losses have no inputs and so no
// values: their columns need not be given. These are the ones of rows that no feature group and
// no other feature reads.
FeatureLayout prediction_layout(FeatureLayout layout, const config::ModelConfig& model);

}  // namespace emblem
