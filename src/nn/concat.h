// nn/concat.h - putting columns together and taking them apart.
#pragma once

#include <memory>

#include "nn/op.h"

namespace emblem {

std::unique_ptr<Op> make_concat(std::vector<Tensor*> parts, Tensor* out);
std::unique_ptr<Op> make_slice(Tensor* x, int64_t begin,
                               Tensor* out);  // columns [begin, begin + out cols)

}  // namespace emblem
