// Deep & Cross networks: the cross layers and an MLP side by side, joined by a final MLP.
#include "config/groups.h"
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {
namespace {

Node add_output(Graph& graph, const ModelInputs& inputs, Node x, int64_t classes) {
  return semantics_of(inputs.config()).torcheasyrec_dcn
             ? add_logits_without_bias(graph, "output", x, classes)
             : add_logits(graph, "output", x, classes);
}

}  // namespace

Node build_dcn_v1(Graph& graph, ModelInputs& inputs, const config::DCNV1& model, int64_t classes) {
  const Node features = inputs.group(input_group_of(inputs.config()));
  graph.set_scope("cross");
  const Node cross = graph.cross_v1(features, static_cast<int>(model.cross().cross_num()));
  const Node deep = add_mlp(graph, "deep", features, model.deep());
  return add_output(graph, inputs,
                    add_mlp(graph, "final", graph.concat({cross, deep}), model.final()), classes);
}

Node build_dcn_v2(Graph& graph, ModelInputs& inputs, const config::DCNV2& model, int64_t classes) {
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

}  // namespace emblem
