#include <algorithm>

#include "core/thread_pool.h"
#include "kernels/gemm.h"
#include "kernels/tile_gemm.h"

namespace emblem::cpu {
namespace {

// Blocks of C that one thread computes in one piece. Large, because each block packs its part of A
// and B again; small enough that layers of common sizes occupy a dozen threads.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockCols = 512;

}  // namespace

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
  const int64_t row_blocks = (c.rows + kBlockRows - 1) / kBlockRows;
  const int64_t col_blocks = (c.cols + kBlockCols - 1) / kBlockCols;
  parallel_for(context, row_blocks * col_blocks, 1, [&](int64_t block, int64_t) {
    const int64_t row = block / col_blocks * kBlockRows, col = block % col_blocks * kBlockCols;
    const int64_t rows = std::min(kBlockRows, c.rows - row),
                  cols = std::min(kBlockCols, c.cols - col);
    gemm_block(transpose_a, transpose_b, alpha,
               transpose_a == Transpose::kYes ? a.block(0, row, a.rows, rows)
                                              : a.block(row, 0, rows, a.cols),
               transpose_b == Transpose::kYes ? b.block(col, 0, cols, b.cols)
                                              : b.block(0, col, b.rows, cols),
               beta, c.block(row, col, rows, cols), type);
  });
}

}  // namespace emblem::cpu
