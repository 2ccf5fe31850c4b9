#include "config/groups.h"
#include "model/builders.h"

namespace emblem {

Node build_deepfm(Graph& graph, ModelInputs& inputs, const config::DeepFM& model) {
  graph.set_scope("wide");
  const Node wide = inputs.wide_sum("wide");
  const Vectors vectors = inputs.vectors(pairs_group_of(inputs.config().model_config()));
  const Node pairs = graph.fm(vectors.node, vectors.dim);
  const Node deep = add_mlp(graph, "deep", inputs.group("deep"), model.deep());
  if (model.has_final()) {
    return add_logit(graph, "output",
                     add_mlp(graph, "final", graph.concat({wide, pairs, deep}), model.final()));
  }
  return graph.sum({wide, graph.row_sum(pairs), add_logit(graph, "output", deep)});
}

}  // namespace emblem
