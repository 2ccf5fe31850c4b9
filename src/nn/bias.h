// nn/bias.h - x + a trained row.
#pragma once

#include <memory>
#include <string>

#include "nn/op.h"

namespace emblem {

// Adds the parameter NAME.bias [1, cols].
std::unique_ptr<Op> make_bias(Tensor* x, Tensor* out, const std::string& name,
                              ParameterSet& parameters);

}  // namespace emblem
