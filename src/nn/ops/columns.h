// nn/ops/columns.h - copies between rows of different lengths. CUDA builds only.
#pragma once

#include <cstdint>

#include "nn/ops/op.h"

namespace emblem::cuda {

// Rows of `stride` elements, of which the first `cols` are meant.
struct Columns {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  bool are_all = true;  // what is behind them is nobody's

  template <class T>
  Matrix<T> matrix() const {
    return {static_cast<T*>(data), rows, cols, stride};
  }
};

// to = (or +=) from, from column `first` of `from` on. Behind columns that are all come zeros, or,
// where they are added to, what was there.
void copy_columns(const Context& context, Write write, const Columns& from, int64_t first,
                  const Columns& to);

}  // namespace emblem::cuda
