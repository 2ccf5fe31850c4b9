// kernels/gemm.h - products of row-major matrices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/device/context.h"
#include "core/math/half.h"
#include "core/memory/view.h"

namespace emblem {

enum class Transpose { kNo, kYes };

// A row-major matrix that may be a part of a wider one: row r starts at data + r * stride.
template <class T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix() = default;
  Matrix(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  Matrix(T* data, int64_t rows, int64_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(View<T> view) : Matrix(view.data, view.rows, view.cols) {}
  template <class U>
  requires std::is_same_v<T, const U> Matrix(Matrix<U> m)
      : Matrix(m.data, m.rows, m.cols, m.stride) {}  // who may write may also read

  T* row(int64_t r) const { return data + r * stride; }
  Matrix block(int64_t row, int64_t col, int64_t block_rows, int64_t block_cols) const {
    return {data + row * stride + col, block_rows, block_cols, stride};
  }
  Matrix row_range(int64_t begin, int64_t end) const { return block(begin, 0, end - begin, cols); }
};

// C = alpha op(A) op(B) + beta C, op transposing where asked. C is not read when beta is 0; it must
// not overlap A or B. The same bytes come out whatever the number of threads of `context`. A and B
// are rounded to `type` (other than fp32 with an alpha of 1 only), sums are fp32.
void gemm(const Context& context, Transpose transpose_a, Transpose transpose_b, float alpha,
          Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c,
          DType type = DType::kF32);

namespace cpu {

void gemm(const Context& context, Transpose transpose_a, Transpose transpose_b, float alpha,
          Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c,
          DType type = DType::kF32);

// The same on the calling thread alone, in one piece and unchecked: for kernels that do more with a
// block of C while it is in the cache.
void gemm_block(Transpose transpose_a, Transpose transpose_b, float alpha, Matrix<const float> a,
                Matrix<const float> b, float beta, Matrix<float> c, DType type = DType::kF32);

// C = beta C, without reading it when beta is 0.
void scale(float beta, Matrix<float> c);

}  // namespace cpu
}  // namespace emblem
