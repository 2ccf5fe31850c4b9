#include "model/builders.h"

#include "emblem/error.h"

namespace emblem {

using config::ModelConfig;

Node add_mlp(Graph& graph, const std::string& scope, Node x, const config::MLP& mlp) {
  if (mlp.hidden_units_size() == 0) return x;
  EMBLEM_REQUIRE(!(mlp.use_bn() && mlp.use_ln()), scope,
                 ": use_bn and use_ln exclude each other; set one of them");
  MlpOptions options;
  options.hidden_units.assign(mlp.hidden_units().begin(), mlp.hidden_units().end());
  options.dropout.assign(mlp.dropout_ratio().begin(), mlp.dropout_ratio().end());
  options.activation = activation_from_name(mlp.activation());
  options.norm = mlp.use_bn()   ? MlpOptions::Norm::kBatch
                 : mlp.use_ln() ? MlpOptions::Norm::kLayer
                                : MlpOptions::Norm::kNone;
  options.bias = mlp.bias();
  graph.set_scope(scope);
  return graph.mlp(x, options);
}

Node add_logit(Graph& graph, const std::string& scope, Node x) {
  graph.set_scope(scope);
  return graph.linear(x, 1);
}

Node build_model(Graph& graph, ModelInputs& inputs, const ModelConfig& model) {
  EMBLEM_REQUIRE(model.num_class() == 1, "model_config.num_class is ", model.num_class(),
                 ", but this model scores one class; set num_class: 1");
  switch (model.model_case()) {
    case ModelConfig::kLr:
      return build_lr(graph, inputs, model.lr());
    case ModelConfig::kFm:
      return build_fm(graph, inputs, model.fm());
    case ModelConfig::kDnn:
      return build_dnn(graph, inputs, model.dnn());
    case ModelConfig::kWideAndDeep:
      return build_wide_and_deep(graph, inputs, model.wide_and_deep());
    case ModelConfig::kDeepfm:
      return build_deepfm(graph, inputs, model.deepfm());
    case ModelConfig::kDcnV1:
      return build_dcn_v1(graph, inputs, model.dcn_v1());
    case ModelConfig::kDcnV2:
      return build_dcn_v2(graph, inputs, model.dcn_v2());
    case ModelConfig::kDlrm:
      return build_dlrm(graph, inputs, model.dlrm());
    case ModelConfig::MODEL_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "model_config names no model; set one of lr, fm, dnn, wide_and_deep, deepfm, dcn_v1, "
              "dcn_v2, dlrm");
}

int64_t wide_dim_of(const ModelConfig& model) {
  if (model.has_wide_and_deep()) return model.wide_and_deep().wide_embedding_dim();
  if (model.has_deepfm()) return model.deepfm().wide_embedding_dim();
  return 1;
}

std::string wide_init_of(const ModelConfig& model) {
  if (model.has_wide_and_deep()) return model.wide_and_deep().wide_init_fn();
  if (model.has_deepfm()) return model.deepfm().wide_init_fn();
  if (model.has_lr()) return model.lr().wide_init_fn();
  if (model.has_fm()) return model.fm().wide_init_fn();
  return "";
}

std::string model_name(const ModelConfig& model) {
  const auto* field = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  return field ? field->name() : "none";
}

}  // namespace emblem
