// kernels/packed_weights.h - y = x W^T for weights that many rows pass: laid out once in the order
// in which the product reads them.
//
// Every element of y is summed over the columns of x in their order. So a row's result depends on
// that row alone, never on other rows.
#pragma once

#include "core/host_vector.h"
#include "kernels/cpu/tile_kernel.h"
#include "kernels/gemm.h"

namespace emblem::cpu {

class PackedWeights {
 public:
  PackedWeights() = default;
  explicit PackedWeights(Matrix<const float> weights) { assign(weights); }

  // Takes W [units, inputs], reusing the memory; or W^T for weights [inputs, units]. x and W are
  // rounded to `type`.
  void assign(const Context& context, Matrix<const float> weights,
              Transpose transpose = Transpose::kNo, DType type = DType::kF32);
  void assign(Matrix<const float> weights, DType type = DType::kF32) {
    assign(Context(), weights, Transpose::kNo, type);
  }

  int64_t units() const { return units_; }
  int64_t inputs() const { return inputs_; }

  // Where a part of the units may begin.
  static constexpr int64_t kAlign = 64;

  // y = x [rows, inputs] times the units [unit, unit + columns of y), on the calling thread; or
  // y + that with `add`. `unit` is a multiple of kAlign.
  void multiply(Matrix<const float> x, int64_t unit, Matrix<float> y, bool add = false) const;
  void multiply(Matrix<const float> x, Matrix<float> y, bool add = false) const {
    multiply(x, 0, y, add);
  }

 private:
  const TileKernel* kernel_ = nullptr;
  int64_t units_ = 0, inputs_ = 0;
  HostVector<std::byte> panels_;  // of the kernel, by units
};

}  // namespace emblem::cpu
