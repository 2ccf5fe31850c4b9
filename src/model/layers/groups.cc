#include "model/layers/groups.h"

#include <algorithm>

namespace emblem {

using config::ModelConfig;

const config::FeatureGroupConfig* find_group(const ModelConfig& model, const std::string& name) {
  for (const auto& group : model.feature_groups())
    if (group.group_name() == name) return &group;
  return nullptr;
}

bool has_group(const ModelConfig& model, const std::string& name) {
  return find_group(model, name) != nullptr;
}

bool is_in_group(const ModelConfig& model, const std::string& feature,
                 config::FeatureGroupType type) {
  for (const auto& group : model.feature_groups()) {
    const auto& names = group.feature_names();
    if (group.group_type() == type && std::find(names.begin(), names.end(), feature) != names.end())
      return true;
  }
  return false;
}

std::string first_group_of(const ModelConfig& model) {
  return model.feature_groups_size() == 0 ? "deep" : model.feature_groups(0).group_name();
}

std::string only_group_or(const ModelConfig& model, const std::string& name) {
  return model.feature_groups_size() == 1 ? model.feature_groups(0).group_name() : name;
}

std::vector<GroupUse> reads_first_group(const config::PipelineConfig& config) {
  return {{first_group_of(config.model_config())}};
}

std::vector<GroupUse> reads_sparse_and_dense(const config::PipelineConfig& config) {
  const ModelConfig& model = config.model_config();
  std::vector<GroupUse> uses = {{only_group_or(model, "sparse"), GroupPart::kVectors, "dense"}};
  if (model.feature_groups_size() > 1 && has_group(model, "dense")) uses.push_back({"dense"});
  return uses;
}

}  // namespace emblem
