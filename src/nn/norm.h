// nn/norm.h - batch and layer normalization, scaled, shifted and activated.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

// Adds the parameters NAME.weight and NAME.bias [1, cols] and the statistics NAME.running_mean and
// NAME.running_var. In training a batch is normalized by its own mean and variance, and a tenth of
// them goes into the statistics; in evaluation, and for a training batch of a single row, which has
// no variance, the statistics are used and stay. The activation must be invertible_from_output.
std::unique_ptr<Op> make_batch_norm(Tensor* x, Tensor* out, Activation activation,
                                    const std::string& name, ParameterSet& parameters,
                                    ParameterSet& statistics);

// Adds the parameters NAME.weight and NAME.bias [1, cols].
std::unique_ptr<Op> make_layer_norm(Tensor* x, Tensor* out, Activation activation,
                                    const std::string& name, ParameterSet& parameters);

}  // namespace emblem
