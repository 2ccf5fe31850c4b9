#include "kernels/gemm.h"
#include "kernels/tile_gemm.h"

namespace emblem::cpu {

void scale(float beta, Matrix<float> c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t j = 0; j < c.cols; ++j) c.row(r)[j] = beta == 0.0f ? 0.0f : beta * c.row(r)[j];
  }
}

void gemm_block(Transpose transpose_a, Transpose transpose_b, float alpha, Matrix<const float> a,
                Matrix<const float> b, float beta, Matrix<float> c, DType type) {
  if (c.rows == 0 || c.cols == 0) return;
  const int64_t inner = transpose_a == Transpose::kYes ? a.rows : a.cols;
  if (inner == 0) return scale(beta, c);
  tile_gemm(tile_kernel(type), transpose_a, transpose_b, alpha, a, b, inner, beta, c);
}

void gemm(const Context& context, Transpose transpose_a, Transpose transpose_b, float alpha,
          Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c, DType type) {
  if (c.rows == 0 || c.cols == 0) return;
  const int64_t inner = transpose_a == Transpose::kYes ? a.rows : a.cols;
  if (inner == 0) return scale(beta, c);
  tile_gemm(context, tile_kernel(type), transpose_a, transpose_b, alpha, a, b, inner, beta, c);
}

}  // namespace emblem::cpu
