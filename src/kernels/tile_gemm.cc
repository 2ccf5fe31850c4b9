#include "kernels/tile_gemm.h"

#include <algorithm>

#include "core/host_vector.h"
#include "kernels/cpu/tile_product.h"

namespace emblem::cpu {

void tile_gemm(const TileKernel& kernel, Transpose transpose_a, Transpose transpose_b, float alpha,
               Matrix<const float> a, Matrix<const float> b, int64_t inner, float beta,
               Matrix<float> c) {
  static thread_local HostVector<std::byte> right;
  if (beta != 0.0f && beta != 1.0f) scale(beta, c);
  const bool turn_a = transpose_a == Transpose::kYes, turn_b = transpose_b == Transpose::kYes;
  const int64_t step = inner_block(inner);
  for (int64_t k = 0; k < inner; k += step) {
    const int64_t count = std::min(step, inner - k);
    const int64_t bytes = kernel.panel_bytes(kernel.cols, count);
    right.resize(kernel.bytes_for(c.cols, kernel.cols, count));
    kernel.pack_right({.data = turn_b ? b.data + k : b.row(k),
                       .count = c.cols,
                       .inner = count,
                       .step = turn_b ? b.stride : 1,
                       .inner_step = turn_b ? 1 : b.stride},
                      kernel.cols, right.data());
    const Lines left{.data = turn_a ? a.row(k) : a.data + k,
                     .count = c.rows,
                     .inner = count,
                     .step = turn_a ? 1 : a.stride,
                     .inner_step = turn_a ? a.stride : 1};
    multiply_panels(kernel, left, alpha, right.data(), bytes, c.cols, beta != 0.0f || k > 0, c.data,
                    c.stride);
  }
}

}  // namespace emblem::cpu
