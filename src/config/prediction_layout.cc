#include "config/prediction_layout.h"

#include <string>
#include <unordered_set>

namespace emblem {

FeatureLayout prediction_layout(FeatureLayout layout, const config::ModelConfig& model) {
  std::unordered_set<std::string> read;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    read.insert(group.feature_names().begin(), group.feature_names().end());
    for (const config::SeqGroupConfig& nested : group.sequence_groups())
      read.insert(nested.feature_names().begin(), nested.feature_names().end());
  }
  for (const FeatureSpec& spec : layout.features) {
    for (const FeatureInput& input : spec.inputs)
      if (input.source == FeatureInput::Source::kFeature) read.insert(input.name);
  }
  for (FeatureSpec& spec : layout.features) {
    const bool is_of_rows = spec.kind == FeatureKind::kSparse && spec.sequence < 0;
    if (is_of_rows && !spec.is_intermediate && !read.contains(spec.name)) spec.inputs.clear();
  }
  return layout;
}

}  // namespace emblem
