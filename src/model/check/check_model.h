// model/check/check_model.h - the parts of check_pipeline about tables, models and what is not
// supported.
#pragma once

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"

namespace emblem {

// Whether towers, labels, losses and metrics of a model fit together. Throws Error with one line.
void check_heads(const config::PipelineConfig& config, const FeatureLayout& layout);

// Whether feature groups of sequences and their encoders fit together. Throws Error with one line.
void check_sequences(const config::PipelineConfig& config, const FeatureLayout& layout);

// Columns that a feature adds to its group.
int64_t width_of(const FeatureSpec& feature);

// Features that share a table must agree on every setting of it. Throws Error.
void check_shared_tables(const config::PipelineConfig& config, const FeatureLayout& layout);

// Groups, losses and networks of the model. Throws Error.
void check_model(const config::PipelineConfig& config, const FeatureLayout& layout);

// Settings of TorchEasyRec that Emblem reads, but cannot act on: throws Error with one line that
// names the setting and what to do instead.
void refuse_unsupported(const config::PipelineConfig& config);

}  // namespace emblem
