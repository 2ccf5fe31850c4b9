// nn/loss.h - what training minimizes.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

// weights may be null: all 1.
std::unique_ptr<Loss> make_binary_cross_entropy(Tensor* logits, Tensor* labels, Tensor* weights,
                                                float label_smoothing);

}  // namespace emblem
