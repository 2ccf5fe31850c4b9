#include "model/builders.h"

namespace emblem {

Node build_dnn(Graph& graph, ModelInputs& inputs, const config::DNN& model) {
  return add_logit(graph, "output",
                   add_mlp(graph, "deep", inputs.group_or_only("deep"), model.deep()));
}

}  // namespace emblem
