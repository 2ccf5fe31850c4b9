// config/feature/labels.h - which label and weight columns a model reads.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"

namespace emblem {

// The label_fields that the model learns, and those that its towers read besides (task-space
// indicators, domains), in the order of label_fields. A model with one target reads the first.
std::vector<LabelSpec> labels_of(const config::PipelineConfig& config);

// The sample_weight_fields that the model reads, in their order: those of its towers; the first for
// a model with one target.
std::vector<std::string> weight_fields_of(const config::PipelineConfig& config);

}  // namespace emblem
