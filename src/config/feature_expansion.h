// config/feature_expansion.h - feature_configs as a flat list: the features of a sequence_feature
// one by one, and sequence_id_feature as the id_feature that describes its elements.
#pragma once

#include <string>
#include <vector>

#include "config/pipeline.pb.h"

namespace emblem {

struct ExpandedFeature {
  // Of a kind without "sequence_". Features of a sequence_feature are called SEQUENCE__NAME and
  // have its sequence_length and sequence_delim.
  config::FeatureConfig config;
  bool in_sequence = false;
  std::string sequence_name;  // of the sequence_feature; "" for a feature outside of one
};

// Throws Error for features and sequences without content or name.
std::vector<ExpandedFeature> expand_features(const config::PipelineConfig& config);

}  // namespace emblem
