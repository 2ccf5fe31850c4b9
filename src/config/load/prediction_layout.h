// config/load/prediction_layout.h - the features that training and predictions read; others are not
// computed.
#pragma once

#include <span>

#include "config/feature/features.h"
#include "config/feature/heads.h"
#include "config/proto/pipeline.pb.h"

namespace emblem {

// `layout`, in which features that nothing reads have no inputs and so no values: their columns
// need not be given, and no value of theirs is bad. Read are those of feature groups, what these
// are computed from, and the first feature of a sequence, which has its lengths.
FeatureLayout prediction_layout(FeatureLayout layout, const config::ModelConfig& model);

// The same for some outputs alone: for the vectors of one tower, what that tower reads. Features of
// the other one have no values; sampled items (config/feature/items.h) need all.
FeatureLayout prediction_layout(FeatureLayout layout, const config::ModelConfig& model,
                                std::span<const OutputSpec> outputs);

// Adds the features that group rows in metrics and losses.
FeatureLayout training_layout(FeatureLayout layout, const config::ModelConfig& model);

}  // namespace emblem
