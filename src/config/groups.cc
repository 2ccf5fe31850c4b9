#include "config/groups.h"

#include <algorithm>

#include "config/semantics.h"

namespace emblem {

using config::ModelConfig;

bool has_group(const ModelConfig& model, const std::string& name) {
  for (const auto& group : model.feature_groups())
    if (group.group_name() == name) return true;
  return false;
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

std::string input_group_of(const config::PipelineConfig& config) {
  const ModelConfig& model = config.model_config();
  if (model.feature_groups_size() == 0) return "deep";
  const std::string& first = model.feature_groups(0).group_name();
  if (model.has_mask_net() || model.has_mmoe() || model.has_ple() || model.has_dbmtl() ||
      model.has_rocket_launching())
    return first;
  const bool is_dcn = model.has_dcn_v1() || model.has_dcn_v2();
  if (is_dcn && semantics_of(config).torcheasyrec_dcn) return first;
  return model.feature_groups_size() == 1 ? first : "deep";
}

std::string sparse_group_of(const ModelConfig& model) {
  return model.feature_groups_size() == 1 ? model.feature_groups(0).group_name() : "sparse";
}

std::string pairs_group_of(const ModelConfig& model) {
  return has_group(model, "fm") ? "fm" : "deep";
}

namespace {

template <class Towers>
std::vector<GroupUse> inputs_of_towers(const Towers& towers, GroupPart part) {
  std::vector<GroupUse> uses;
  for (const auto& tower : towers) uses.push_back({tower.input(), part});
  return uses;
}

}  // namespace

std::vector<GroupUse> groups_used(const config::PipelineConfig& config) {
  const ModelConfig& model = config.model_config();
  switch (model.model_case()) {
    case ModelConfig::kLr:
      return {{"wide", GroupPart::kWide}};
    case ModelConfig::kFm:
      return {{"wide", GroupPart::kWide}, {pairs_group_of(model), GroupPart::kVectors}};
    case ModelConfig::kDnn:
    case ModelConfig::kDcnV1:
    case ModelConfig::kDcnV2:
    case ModelConfig::kMaskNet:
    case ModelConfig::kMmoe:
    case ModelConfig::kPle:
    case ModelConfig::kDbmtl:
    case ModelConfig::kRocketLaunching:
      return {{input_group_of(config), GroupPart::kAll}};
    case ModelConfig::kWideAndDeep:
      return {{"wide", GroupPart::kWide}, {"deep", GroupPart::kAll}};
    case ModelConfig::kDeepfm: {
      std::vector<GroupUse> uses = {{"wide", GroupPart::kWide}, {"deep", GroupPart::kAll}};
      if (has_group(model, "fm")) uses.push_back({"fm", GroupPart::kVectors});
      return uses;
    }
    case ModelConfig::kXdeepfm:
      return {{"wide", GroupPart::kWideVectors}, {"deep", GroupPart::kAll}};
    case ModelConfig::kMultiTower:
      return inputs_of_towers(model.multi_tower().towers(), GroupPart::kAll);
    case ModelConfig::kMultiTowerDin: {
      auto uses = inputs_of_towers(model.multi_tower_din().towers(), GroupPart::kAll);
      for (GroupUse& use :
           inputs_of_towers(model.multi_tower_din().din_towers(), GroupPart::kSequence))
        uses.push_back(std::move(use));
      return uses;
    }
    case ModelConfig::kPepnet: {
      std::vector<GroupUse> uses = {{"all", GroupPart::kAll}};
      for (const char* name : {"domain", "uia"})
        if (has_group(model, name)) uses.push_back({name, GroupPart::kAll});
      return uses;
    }
    case ModelConfig::kWukong:
    case ModelConfig::kDlrm: {
      std::vector<GroupUse> uses = {{sparse_group_of(model), GroupPart::kVectors}};
      if (model.feature_groups_size() > 1 && has_group(model, "dense"))
        uses.push_back({"dense", GroupPart::kAll});
      return uses;
    }
    default:
      break;
  }
  return {};
}

}  // namespace emblem
