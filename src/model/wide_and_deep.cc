#include "model/builders.h"

namespace emblem {

Node build_wide_and_deep(Graph& graph, ModelInputs& inputs, const config::WideAndDeep& model) {
  graph.set_scope("wide");
  const Node wide = inputs.wide_sum("wide");
  const Node deep = add_mlp(graph, "deep", inputs.group("deep"), model.deep());
  if (model.has_final()) {
    return add_logit(graph, "output",
                     add_mlp(graph, "final", graph.concat({wide, deep}), model.final()));
  }
  return graph.sum({wide, add_logit(graph, "output", deep)});
}

}  // namespace emblem
