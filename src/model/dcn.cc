// Deep & Cross networks: the cross layers and an MLP side by side, joined by a final MLP.
#include "model/builders.h"

namespace emblem {

Node build_dcn_v1(Graph& graph, ModelInputs& inputs, const config::DCNV1& model) {
  const Node features = inputs.group_or_only("deep");
  graph.set_scope("cross");
  const Node cross = graph.cross_v1(features, static_cast<int>(model.cross().cross_num()));
  const Node deep = add_mlp(graph, "deep", features, model.deep());
  return add_logit(graph, "output",
                   add_mlp(graph, "final", graph.concat({cross, deep}), model.final()));
}

Node build_dcn_v2(Graph& graph, ModelInputs& inputs, const config::DCNV2& model) {
  const Node features = add_mlp(graph, "backbone", inputs.group_or_only("deep"), model.backbone());
  graph.set_scope("cross");
  Node joined = graph.cross_v2(features, static_cast<int>(model.cross().cross_num()),
                               model.cross().low_rank());
  if (model.has_deep())
    joined = graph.concat({joined, add_mlp(graph, "deep", features, model.deep())});
  return add_logit(graph, "output", add_mlp(graph, "final", joined, model.final()));
}

}  // namespace emblem
