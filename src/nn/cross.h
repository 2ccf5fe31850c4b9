// nn/cross.h - the layers of deep & cross networks.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

// out = x0 (x . w) + b + x, with the parameters NAME.weight and NAME.bias [1, cols].
std::unique_ptr<Op> make_cross_layer(Tensor* x0, Tensor* x, Tensor* out, const std::string& name,
                                     ParameterSet& parameters);

// out = x0 * z + x, elementwise: what the second version does with z = W x + b.
std::unique_ptr<Op> make_cross_combine(Tensor* x0, Tensor* z, Tensor* x, Tensor* out);

}  // namespace emblem
