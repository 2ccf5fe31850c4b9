#include "emblem/error.h"
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {

Node build_wide_and_deep(Graph& graph, ModelInputs& inputs, const config::WideAndDeep& model,
                         int64_t classes) {
  graph.set_scope("wide");
  const Node wide = inputs.wide_sum("wide");
  const Node deep = add_mlp(graph, "deep", inputs.group("deep"), model.deep());
  if (model.has_final()) {
    return add_logits(graph, "output",
                      add_mlp(graph, "final", graph.concat({wide, deep}), model.final()), classes);
  }
  EMBLEM_REQUIRE(classes == 1, "wide_and_deep without `final` gives one number, but num_class is ",
                 classes, "; add final { hidden_units: ... }");
  return graph.sum({wide, add_logits(graph, "output", deep)});
}

}  // namespace emblem
