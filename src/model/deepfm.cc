#include "config/groups.h"
#include "emblem/error.h"
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {

Node build_deepfm(Graph& graph, ModelInputs& inputs, const config::DeepFM& model, int64_t classes) {
  graph.set_scope("wide");
  const Node wide = inputs.wide_sum("wide");
  const Vectors vectors = inputs.vectors(pairs_group_of(inputs.config().model_config()));
  const Node pairs = graph.fm(vectors.node, vectors.dim);
  const Node deep = add_mlp(graph, "deep", inputs.group("deep"), model.deep());
  if (model.has_final()) {
    return add_logits(graph, "output",
                      add_mlp(graph, "final", graph.concat({wide, pairs, deep}), model.final()),
                      classes);
  }
  EMBLEM_REQUIRE(classes == 1, "deepfm without `final` gives one number, but num_class is ",
                 classes, "; add final { hidden_units: ... }");
  return graph.sum({wide, graph.row_sum(pairs), add_logits(graph, "output", deep)});
}

}  // namespace emblem
