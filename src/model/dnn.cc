#include "config/groups.h"
#include "model/builders.h"
#include "model/layers.h"

namespace emblem {

Node build_dnn(Graph& graph, ModelInputs& inputs, const config::DNN& model, int64_t classes) {
  const Node features = inputs.group(input_group_of(inputs.config()));
  return add_logits(graph, "output", add_mlp(graph, "deep", features, model.deep()), classes);
}

}  // namespace emblem
