// nn/dropout.h - zeroes a share of the elements in training and scales up the others.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

// The mask depends on (seed of the graph, `stream`, draw, element) alone.
std::unique_ptr<Op> make_dropout(Tensor* x, float ratio, uint64_t stream, Tensor* out);

}  // namespace emblem
