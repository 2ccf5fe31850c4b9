#include "config/groups.h"
#include "model/builders.h"

namespace emblem {

Node build_dnn(Graph& graph, ModelInputs& inputs, const config::DNN& model) {
  const Node features = inputs.group(input_group_of(inputs.config()));
  return add_logit(graph, "output", add_mlp(graph, "deep", features, model.deep()));
}

}  // namespace emblem
