#include "config/check_architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include "config/check_sequences.h"
#include "config/groups.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using config::ModelConfig;

void require_units(const config::MLP& mlp, const std::string& path) {
  EMBLEM_REQUIRE(mlp.hidden_units_size() > 0, path, " has no hidden_units");
}

uint32_t last_of(const config::MLP& mlp) { return mlp.hidden_units(mlp.hidden_units_size() - 1); }

const config::FeatureGroupConfig* find_group(const ModelConfig& model, const std::string& name) {
  for (const config::FeatureGroupConfig& group : model.feature_groups())
    if (group.group_name() == name) return &group;
  return nullptr;
}

// ---- groups ----

void check_groups_exist(const config::PipelineConfig& config) {
  const ModelConfig& model = config.model_config();
  const auto* field = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  for (const GroupUse& use : groups_used(config)) {
    EMBLEM_REQUIRE(!use.group.empty(), "a tower of ", field->name(),
                   " has no input; name a feature group");
    const config::FeatureGroupConfig* group = find_group(model, use.group);
    if (group == nullptr) {
      std::vector<std::string> names;
      for (const auto& each : model.feature_groups()) names.push_back(each.group_name());
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("model_config has no feature group \"{}\", which {} needs; it has {}",
                              printable(use.group), field->name(), fmt::join(names, ", ")));
    }
    const bool is_sequence = group->group_type() == config::SEQUENCE;
    EMBLEM_REQUIRE(
        is_sequence == (use.part == GroupPart::kSequence), "feature group \"", printable(use.group),
        "\" is ", config::FeatureGroupType_Name(group->group_type()), ", but ", field->name(),
        use.part == GroupPart::kSequence ? " reads it with a DIN; set group_type: SEQUENCE"
                                         : " needs one value per row of it; set "
                                           "group_type: DEEP");
  }
}

// ---- models ----

void check_ple(const config::PLE& model) {
  EMBLEM_REQUIRE(model.extraction_networks_size() > 0, "ple has no extraction_networks");
  for (int i = 0; i < model.extraction_networks_size(); ++i) {
    const config::ExtractionNetwork& network = model.extraction_networks(i);
    const std::string path = cat("ple.extraction_networks[", i, "]");
    require_units(network.task_expert_net(), path + ".task_expert_net");
    require_units(network.share_expert_net(), path + ".share_expert_net");
    EMBLEM_REQUIRE(last_of(network.task_expert_net()) == last_of(network.share_expert_net()), path,
                   " has experts of tasks that end in ", last_of(network.task_expert_net()),
                   " units and shared ones that end in ", last_of(network.share_expert_net()),
                   "; they are mixed: make them equal");
    EMBLEM_REQUIRE(network.expert_num_per_task() > 0 && network.share_num() > 0, path, ".",
                   network.share_num() == 0 ? "share_num" : "expert_num_per_task",
                   " is 0, expected at least 1");
  }
}

void check_experts(const config::MLP& expert, uint32_t count, const std::string& model) {
  require_units(expert, model + ".expert_mlp");
  EMBLEM_REQUIRE(count > 0, model, ".num_expert is 0, expected at least 1");
}

void check_mask_net(const config::MaskNetModule& module, const std::string& path) {
  EMBLEM_REQUIRE(module.n_mask_blocks() > 0, path, ".n_mask_blocks is 0, expected at least 1");
  EMBLEM_REQUIRE(module.mask_block().hidden_dim() > 0, path,
                 ".mask_block.hidden_dim is 0, expected at least 1");
  EMBLEM_REQUIRE(
      module.mask_block().reduction_ratio() > 0 || module.mask_block().aggregation_dim() > 0, path,
      ".mask_block.reduction_ratio is ", module.mask_block().reduction_ratio(),
      " and aggregation_dim is 0; give one of them");
}

void check_dbmtl(const config::DBMTL& model) {
  if (model.has_mask_net()) check_mask_net(model.mask_net(), "dbmtl.mask_net");
  if (model.has_bottom_mlp()) require_units(model.bottom_mlp(), "dbmtl.bottom_mlp");
  if (model.has_expert_mlp()) check_experts(model.expert_mlp(), model.num_expert(), "dbmtl");
}

// The vectors of the sparse group and the output of dense_mlp are rows of one matrix.
void check_wukong(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const ModelConfig& model = config.model_config();
  const config::WuKong& wukong = model.wukong();
  EMBLEM_REQUIRE(wukong.wukong_layers_size() > 0, "wukong has no wukong_layers");
  for (int i = 0; i < wukong.wukong_layers_size(); ++i) {
    const config::WuKongLayer& layer = wukong.wukong_layers(i);
    EMBLEM_REQUIRE(layer.lcb_feature_num() > 0 && layer.fmb_feature_num() > 0,
                   "wukong.wukong_layers[", i, "].",
                   layer.lcb_feature_num() == 0 ? "lcb_feature_num" : "fmb_feature_num",
                   " is 0, expected at least 1");
  }
  const config::FeatureGroupConfig& sparse = *find_group(model, sparse_group_of(model));
  EMBLEM_REQUIRE(sparse.feature_names_size() > 0, "feature group \"",
                 printable(sparse.group_name()), "\" has no feature_names");
  const int64_t dim = width_of(layout.find(sparse.feature_names(0)));
  for (const std::string& name : sparse.feature_names())
    EMBLEM_REQUIRE(width_of(layout.find(name)) == dim, "feature group \"",
                   printable(sparse.group_name()), "\" needs one embedding_dim, but \"",
                   printable(sparse.feature_names(0)), "\" has ", dim, " and \"", printable(name),
                   "\" has ", width_of(layout.find(name)));
  const bool has_dense = model.feature_groups_size() > 1 && has_group(model, "dense");
  if (!has_dense) return;
  EMBLEM_REQUIRE(wukong.dense_mlp().hidden_units_size() > 0,
                 "wukong reads feature group \"dense\", but has no dense_mlp");
  EMBLEM_REQUIRE(last_of(wukong.dense_mlp()) == dim, "wukong.dense_mlp ends in ",
                 last_of(wukong.dense_mlp()), " units, but the features of group \"",
                 printable(sparse.group_name()), "\" have embedding_dim ", dim,
                 "; make them equal");
}

void check_xdeepfm(const ModelConfig& model, const FeatureLayout& layout) {
  EMBLEM_REQUIRE(model.xdeepfm().cin().cin_layer_size_size() > 0,
                 "xdeepfm.cin has no cin_layer_size");
  const config::FeatureGroupConfig& wide = *find_group(model, "wide");
  EMBLEM_REQUIRE(wide.group_type() == config::WIDE,
                 "feature group \"wide\" must have group_type: WIDE for xdeepfm");
  for (const std::string& name : wide.feature_names())
    EMBLEM_REQUIRE(layout.find(name).kind == FeatureKind::kSparse, "feature \"", printable(name),
                   "\" is numeric, but xdeepfm reads only embeddings of group \"wide\"; give it "
                   "boundaries, or move it to group \"deep\"");
}

void check_pepnet(const ModelConfig& model) {
  const config::PEPNet& pepnet = model.pepnet();
  EMBLEM_REQUIRE(!has_group(model, "uia") || pepnet.ppnet_hidden_units_size() > 0,
                 "pepnet reads feature group \"uia\", but has no ppnet_hidden_units");
  const int ratios = pepnet.ppnet_dropout_ratio_size(), layers = pepnet.ppnet_hidden_units_size();
  EMBLEM_REQUIRE(ratios <= 1 || ratios == layers, "pepnet.ppnet_dropout_ratio has ", ratios,
                 " numbers, expected one, or one for each of the ", layers, " ppnet_hidden_units");
}

}  // namespace

void check_architecture(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const ModelConfig& model = config.model_config();
  check_groups_exist(config);
  const float lambda = model.variational_dropout().regularization_lambda();
  EMBLEM_REQUIRE(!(lambda < 0), "model_config.variational_dropout.regularization_lambda is ",
                 lambda, ", expected at least 0");
  switch (model.model_case()) {
    case ModelConfig::kPle:
      return check_ple(model.ple());
    case ModelConfig::kMmoe:
      return check_experts(model.mmoe().expert_mlp(), model.mmoe().num_expert(), "mmoe");
    case ModelConfig::kDbmtl:
      return check_dbmtl(model.dbmtl());
    case ModelConfig::kMaskNet:
      return check_mask_net(model.mask_net().mask_net_module(), "mask_net.mask_net_module");
    case ModelConfig::kWukong:
      return check_wukong(config, layout);
    case ModelConfig::kXdeepfm:
      return check_xdeepfm(model, layout);
    case ModelConfig::kPepnet:
      return check_pepnet(model);
    case ModelConfig::kMultiTower:
      EMBLEM_REQUIRE(model.multi_tower().towers_size() > 0, "multi_tower has no towers");
      return;
    case ModelConfig::kRocketLaunching:
      require_units(model.rocket_launching().booster_mlp(), "rocket_launching.booster_mlp");
      return require_units(model.rocket_launching().light_mlp(), "rocket_launching.light_mlp");
    default:
      return;
  }
}

}  // namespace emblem
