// xDeepFM: products of the wide vectors, layer by layer, and an MLP side by side.
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {

Node build_xdeepfm(Graph& graph, ModelInputs& inputs, const config::xDeepFM& model,
                   int64_t classes) {
  const Vectors wide = inputs.vectors("wide");
  std::vector<Node> parts;
  Node x = wide.node;
  for (const uint32_t units : model.cin().cin_layer_size()) {
    graph.set_scope("cin");
    x = graph.cin_layer(x, wide.node, wide.dim, units);
    parts.push_back(graph.vector_sums(x, wide.dim));
  }
  parts.push_back(add_mlp(graph, "deep", inputs.group("deep"), model.deep()));
  return add_logits(graph, "output", add_mlp(graph, "final", graph.concat(parts), model.final()),
                    classes);
}

}  // namespace emblem
