#include "model/builders.h"

namespace emblem {

// A weight per value, and one for all: the bias.
Node build_lr(Graph& graph, ModelInputs& inputs, const config::LR&) {
  graph.set_scope("wide");
  return graph.bias(inputs.wide_sum("wide"));
}

}  // namespace emblem
