// kernels/packed_weights.h - y = x W^T for weights that stay the same, as in inference: laid out
// once in the order in which the product reads them.
//
// Every element of y is one chain of fused multiply-adds over the columns of x in their order. So a
// row's result depends on that row alone, never on other rows.
#pragma once

#include "core/host_vector.h"
#include "kernels/gemm.h"

namespace emblem::cpu {

class PackedWeights {
 public:
  PackedWeights() = default;
  explicit PackedWeights(Matrix<const float> weights) { assign(weights); }

  // Takes W [units, inputs], reusing the memory.
  void assign(Matrix<const float> weights);

  int64_t units() const { return units_; }
  int64_t inputs() const { return inputs_; }

  // Where a part of the units may begin.
  static constexpr int64_t kAlign = 64;

  // y = x [rows, inputs] times the units [unit, unit + columns of y), on the calling thread. `unit`
  // is a multiple of kAlign.
  void multiply(Matrix<const float> x, int64_t unit, Matrix<float> y) const;
  void multiply(Matrix<const float> x, Matrix<float> y) const { multiply(x, 0, y); }

 private:
  int64_t units_ = 0, inputs_ = 0;
  HostVector<float> panels_;  // [panels, inputs, kPanel]: kPanel units side by side, zero-padded
};

}  // namespace emblem::cpu
