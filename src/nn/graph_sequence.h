// nn/graph_sequence.h - layers over sequences that other files of nn build on. Internal.
#pragma once

#include <string>

#include "nn/graph_state.h"
#include "nn/ops/linear.h"

namespace emblem {

// The activation is one that can_be_fused; `name` is for the parameters.
Node add_din_linear(GraphState& state, Node q, Node s, int64_t units, Bias bias,
                    Activation activation, const std::string& name);

}  // namespace emblem
