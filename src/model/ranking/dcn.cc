// Deep & Cross networks: the cross layers and an MLP side by side, joined by a final MLP.
#include "config/check/semantics.h"
#include "model/layers/layers.h"
#include "model/models.h"

namespace emblem {
namespace {

Node add_output(Graph& graph, const ModelInputs& inputs, Node x, int64_t classes) {
  return semantics_of(inputs.config()).torcheasyrec_dcn
             ? add_logits_without_bias(graph, "output", x, classes)
             : add_logits(graph, "output", x, classes);
}

std::string input_group_of(const config::PipelineConfig& config) {
  return semantics_of(config).torcheasyrec_dcn ? first_group_of(config.model_config())
                                               : only_group_or(config.model_config(), "deep");
}

std::vector<GroupUse> groups_of_dcn(const config::PipelineConfig& config) {
  return {{input_group_of(config)}};
}

Node build_dcn_v1(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::DCNV1& model = inputs.config().model_config().dcn_v1();
  const Node features = inputs.group(input_group_of(inputs.config()));
  graph.set_scope("cross");
  const Node cross = graph.cross_v1(features, static_cast<int>(model.cross().cross_num()));
  const Node deep = add_mlp(graph, "deep", features, model.deep());
  return add_output(graph, inputs,
                    add_mlp(graph, "final", graph.concat({cross, deep}), model.final()), classes);
}

Node build_dcn_v2(Graph& graph, ModelInputs& inputs, int64_t classes) {
  const config::DCNV2& model = inputs.config().model_config().dcn_v2();
  const Node features = inputs.group(input_group_of(inputs.config()));
  const Node crossed = add_mlp(graph, "backbone", features, model.backbone());
  graph.set_scope("cross");
  Node joined = graph.cross_v2(crossed, static_cast<int>(model.cross().cross_num()),
                               model.cross().low_rank());
  if (model.has_deep()) {
    const bool on_group = semantics_of(inputs.config()).torcheasyrec_dcn;
    const Node deep = add_mlp(graph, "deep", on_group ? features : crossed, model.deep());
    joined = graph.concat({joined, deep});
  }
  return add_output(graph, inputs, add_mlp(graph, "final", joined, model.final()), classes);
}

}  // namespace

ModelKind dcn_v1_model() {
  return {.name = "dcn_v1", .groups = groups_of_dcn, .build = build_dcn_v1};
}

ModelKind dcn_v2_model() {
  return {.name = "dcn_v2", .groups = groups_of_dcn, .build = build_dcn_v2};
}

}  // namespace emblem
