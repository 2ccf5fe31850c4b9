#include "model/builders.h"
#include "model/layers.h"

namespace emblem {

Node build_mask_net(Graph& graph, ModelInputs& inputs, const config::MaskNet& model,
                    int64_t classes) {
  const Node hidden =
      add_mask_net(graph, "mask_net", inputs.first_group(), model.mask_net_module());
  return add_logits_without_bias(graph, "output", hidden, classes);
}

}  // namespace emblem
