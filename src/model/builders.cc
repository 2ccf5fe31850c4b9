#include "model/builders.h"

#include "emblem/error.h"
#include "model/layers.h"

namespace emblem {
namespace {

using config::ModelConfig;

void require_one_class(const HeadSpec& head, const char* model) {
  EMBLEM_REQUIRE(head.classes == 1, "model_config.num_class is ", head.classes, ", but ", model,
                 " gives one number; set num_class: 1");
}

// Of a model with one head.
Node build_logits(Graph& graph, ModelInputs& inputs, const HeadSpec& head) {
  const ModelConfig& model = inputs.config().model_config();
  const int64_t classes = head.classes;
  switch (model.model_case()) {
    case ModelConfig::kLr:
      require_one_class(head, "lr");
      return build_lr(graph, inputs, model.lr());
    case ModelConfig::kFm:
      require_one_class(head, "fm");
      return build_fm(graph, inputs, model.fm());
    case ModelConfig::kDnn:
      return build_dnn(graph, inputs, model.dnn(), classes);
    case ModelConfig::kWideAndDeep:
      return build_wide_and_deep(graph, inputs, model.wide_and_deep(), classes);
    case ModelConfig::kDeepfm:
      return build_deepfm(graph, inputs, model.deepfm(), classes);
    case ModelConfig::kDcnV1:
      return build_dcn_v1(graph, inputs, model.dcn_v1(), classes);
    case ModelConfig::kDcnV2:
      return build_dcn_v2(graph, inputs, model.dcn_v2(), classes);
    case ModelConfig::kDlrm:
      return build_dlrm(graph, inputs, model.dlrm(), classes);
    case ModelConfig::kMultiTower:
      return build_multi_tower(graph, inputs, model.multi_tower(), classes);
    case ModelConfig::kMultiTowerDin:
      return build_multi_tower_din(graph, inputs, model.multi_tower_din(), classes);
    case ModelConfig::kMaskNet:
      return build_mask_net(graph, inputs, model.mask_net(), classes);
    case ModelConfig::kWukong:
      return build_wukong(graph, inputs, model.wukong(), classes);
    case ModelConfig::kXdeepfm:
      return build_xdeepfm(graph, inputs, model.xdeepfm(), classes);
    case ModelConfig::MODEL_NOT_SET:
      break;
    default:
      throw Error(ErrorCode::kUnsupported, cat("model ", model_name(model), " is not supported"));
  }
  throw Error(ErrorCode::kInvalidArgument,
              "model_config names no model; set one of lr, fm, dnn, wide_and_deep, deepfm, dcn_v1, "
              "dcn_v2, dlrm, multi_tower, multi_tower_din, mask_net, wukong, xdeepfm, "
              "rocket_launching, mmoe, ple, dbmtl, pepnet");
}

// Of each head: a node, or one per domain.
std::vector<std::vector<Node>> build_outputs(Graph& graph, ModelInputs& inputs,
                                             const std::vector<HeadSpec>& heads) {
  const ModelConfig& model = inputs.config().model_config();
  if (model.has_pepnet()) return build_pepnet(graph, inputs, model.pepnet());
  std::vector<std::vector<Node>> outputs;
  const auto each_alone = [&](const std::vector<Node>& logits) {
    for (const Node node : logits) outputs.push_back({node});
  };
  if (model.has_rocket_launching())
    each_alone(build_rocket_launching(graph, inputs, model.rocket_launching(), heads));
  else if (model.has_mmoe())
    each_alone(build_mmoe(graph, inputs, model.mmoe()));
  else if (model.has_ple())
    each_alone(build_ple(graph, inputs, model.ple()));
  else if (model.has_dbmtl())
    each_alone(build_dbmtl(graph, inputs, model.dbmtl()));
  else
    outputs.push_back({build_logits(graph, inputs, heads.at(0))});
  return outputs;
}

}  // namespace

std::vector<Head> build_model(Graph& graph, ModelInputs& inputs) {
  const std::vector<HeadSpec> specs = heads_of(inputs.config(), inputs.layout());
  const auto outputs = build_outputs(graph, inputs, specs);
  EMBLEM_REQUIRE(outputs.size() == specs.size(), "the model has ", outputs.size(), " towers, but ",
                 specs.size(), " heads");
  std::vector<Head> heads;
  for (size_t i = 0; i < specs.size(); ++i)
    heads.push_back(make_head(graph, inputs, specs[i], outputs[i]));
  return heads;
}

int64_t wide_dim_of(const ModelConfig& model) {
  if (model.has_wide_and_deep()) return model.wide_and_deep().wide_embedding_dim();
  if (model.has_deepfm()) return model.deepfm().wide_embedding_dim();
  if (model.has_xdeepfm()) return model.xdeepfm().wide_embedding_dim();
  return 1;
}

std::string wide_init_of(const ModelConfig& model) {
  if (model.has_wide_and_deep()) return model.wide_and_deep().wide_init_fn();
  if (model.has_deepfm()) return model.deepfm().wide_init_fn();
  if (model.has_xdeepfm()) return model.xdeepfm().wide_init_fn();
  if (model.has_lr()) return model.lr().wide_init_fn();
  if (model.has_fm()) return model.fm().wide_init_fn();
  return "";
}

std::string model_name(const ModelConfig& model) {
  const auto* field = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  return field ? field->name() : "none";
}

}  // namespace emblem
