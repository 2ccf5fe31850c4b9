// nn/ops/dense/columns.h - copies between rows of different lengths. CUDA builds only.
#pragma once

#include <cstdint>

#include "nn/ops/op.h"

namespace emblem::cuda {

// Rows of `stride` elements, of which the first `cols` are meant.
struct Columns {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  bool are_all = true;  // no other node uses the columns after them

  template <class T>
  Matrix<T> matrix() const {
    return {static_cast<T*>(data), rows, cols, stride};
  }
};

// to = (or +=) from, from column `first` of `from` on. With `are_all`, the padding of `to` becomes
// zero, or stays as it is if they are added.
void copy_columns(const Context& context, Write write, const Columns& from, int64_t first,
                  const Columns& to);

}  // namespace emblem::cuda
