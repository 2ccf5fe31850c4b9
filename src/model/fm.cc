#include "config/groups.h"
#include "model/builders.h"

namespace emblem {

Node build_fm(Graph& graph, ModelInputs& inputs, const config::FM&) {
  graph.set_scope("wide");
  const Node wide = graph.bias(inputs.wide_sum("wide"));
  const Vectors pairs = inputs.vectors(pairs_group_of(inputs.config().model_config()));
  return graph.sum({wide, graph.row_sum(graph.fm(pairs.node, pairs.dim))});
}

}  // namespace emblem
