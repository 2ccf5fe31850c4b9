// nn/linear.h - y = activation(x W^T + b).
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

enum class Bias { kNone, kTrained };

// Adds the parameters NAME.weight [units, inputs] and, with a bias, NAME.bias [1, units]. The
// activation must be invertible_from_output.
std::unique_ptr<Op> make_linear(Tensor* x, Tensor* out, Bias bias, Activation activation,
                                const std::string& name, ParameterSet& parameters);

}  // namespace emblem
