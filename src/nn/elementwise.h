// nn/elementwise.h - ops that treat every element, or every row, alike.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

std::unique_ptr<Op> make_activation(Tensor* x, Activation activation, Tensor* out);
std::unique_ptr<Op> make_sum(std::vector<Tensor*> parts, Tensor* out);
std::unique_ptr<Op> make_multiply(Tensor* a, Tensor* b, Tensor* out);
std::unique_ptr<Op> make_scale(Tensor* x, float factor, Tensor* out);
std::unique_ptr<Op> make_row_sum(Tensor* x, Tensor* out);  // out is [rows, 1]

}  // namespace emblem
