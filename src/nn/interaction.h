// nn/interaction.h - dot products of all pairs of vectors of a row.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

// The vectors of a row are `first` (unless null) and those of x, `dim` floats each; out is the
// first vector, then the products (1,0) (2,0) (2,1) (3,0) ...
std::unique_ptr<Op> make_interaction(Tensor* first, Tensor* x, int64_t dim, Tensor* out);

// x is [rows, n * dim]; out [rows, dim] = ((sum of vectors)^2 - sum of squares) / 2.
std::unique_ptr<Op> make_fm(Tensor* x, int64_t dim, Tensor* out);

}  // namespace emblem
