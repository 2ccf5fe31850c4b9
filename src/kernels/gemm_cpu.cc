#include <algorithm>

#include "core/thread_pool.h"
#include "kernels/gemm.h"
#include "kernels/tile_gemm.h"

#if defined(EMBLEM_GEMM_ONEDNN)
#include <omp.h>

#include <oneapi/dnnl/dnnl.h>
#endif

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

#if defined(EMBLEM_GEMM_ONEDNN)

// With AVX-512 our own kernels are as fast, and version 2.7 of oneDNN damages the heap there.
static bool uses_library() { return tile_kernel().multiply_copied == nullptr; }

const char* gemm_library() { return uses_library() ? "oneDNN" : "own kernels"; }
bool packing_pays(DType type) { return type != DType::kF32 || !uses_library(); }

static void library_gemm(Transpose transpose_a, Transpose transpose_b, float alpha,
                         Matrix<const float> a, Matrix<const float> b, int64_t inner, float beta,
                         Matrix<float> c) {
  if (!uses_library())
    return tile_gemm(tile_kernel(), transpose_a, transpose_b, alpha, a, b, inner, beta, c);
  // The setting is one of the calling thread. The parallel loops are ours: oneDNN would cut the
  // work by its own number of threads.
  omp_set_num_threads(1);
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a == Transpose::kYes ? 'T' : 'N', transpose_b == Transpose::kYes ? 'T' : 'N',
      c.rows, c.cols, inner, alpha, a.data, a.stride, b.data, b.stride, beta, c.data, c.stride);
  if (status != dnnl_success) {
    throw Error(ErrorCode::kInternal,
                cat("oneDNN refused a product of [", c.rows, ", ", inner, "] and [", inner, ", ",
                    c.cols, "] with status ", static_cast<int>(status)));
  }
}

#else

const char* gemm_library() { return "own kernels"; }
bool packing_pays(DType) { return true; }

static void library_gemm(Transpose transpose_a, Transpose transpose_b, float alpha,
                         Matrix<const float> a, Matrix<const float> b, int64_t inner, float beta,
                         Matrix<float> c) {
  tile_gemm(tile_kernel(), transpose_a, transpose_b, alpha, a, b, inner, beta, c);
}

#endif

void gemm_block(Transpose transpose_a, Transpose transpose_b, float alpha, Matrix<const float> a,
                Matrix<const float> b, float beta, Matrix<float> c, DType type) {
  if (c.rows == 0 || c.cols == 0) return;
  const int64_t inner = transpose_a == Transpose::kYes ? a.rows : a.cols;
  if (inner == 0) return scale(beta, c);
  if (type == DType::kF32)
    return library_gemm(transpose_a, transpose_b, alpha, a, b, inner, beta, c);
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
