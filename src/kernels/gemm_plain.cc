// Packs panels of A and B so that the inner loop reads both in order, and keeps a piece of C in
// vector registers over the whole inner dimension of a panel.
#include <algorithm>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/simd.h"

namespace emblem::cpu {
namespace {

using simd::Floats;
using simd::kWidth;

#if defined(__aarch64__)
constexpr int kVectors = 3, kRows = 8;  // 24 of 32 registers hold C
#else
constexpr int kVectors = 2, kRows = 6;  // 12 of 16
#endif
constexpr int kCols = kVectors * kWidth;

constexpr int64_t kPanelInner = 256;        // rows of a packed panel of B that stay in the L1 cache
constexpr int64_t kPanelRows = kRows * 16;  // a packed panel of A stays in the L2 cache
constexpr int64_t kPanelCols = kCols * 64;

// Element (i, k) of op(A) is at data[i * row_step + k * col_step].
struct Operand {
  const float* data;
  int64_t row_step, col_step;
  float at(int64_t i, int64_t k) const { return data[i * row_step + k * col_step]; }
};

Operand operand(Transpose transpose, Matrix<const float> m) {
  return transpose == Transpose::kYes ? Operand{m.data, 1, m.stride} : Operand{m.data, m.stride, 1};
}

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Groups of `kStep` lines of op(A)'s rows (or op(B)'s columns), stored inner index by inner index;
// lines beyond the end are zeros.
template <int kStep, class At>
void pack(int64_t lines, int64_t inner, At at, float* out) {
  for (int64_t group = 0; group < lines; group += kStep) {
    for (int64_t k = 0; k < inner; ++k) {
      for (int64_t i = group; i < group + kStep; ++i) *out++ = i < lines ? at(i, k) : 0.0f;
    }
  }
}

// sums = the product of one group of A's lines and one of B's.
void multiply_groups(const float* a, const float* b, int64_t inner,
                     Floats (&sums)[kRows][kVectors]) {
  for (auto& row : sums) {
    for (auto& sum : row) sum = Floats{};
  }
  for (int64_t k = 0; k < inner; ++k, a += kRows, b += kCols) {
    Floats line[kVectors];
    for (int v = 0; v < kVectors; ++v) line[v] = simd::load(b + v * kWidth);
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < kVectors; ++v) sums[i][v] += a[i] * line[v];
    }
  }
}

void add_to(Matrix<float> c, float alpha, float beta, const Floats (&sums)[kRows][kVectors]) {
  for (int64_t i = 0; i < c.rows; ++i) {
    float values[kCols];
    for (int v = 0; v < kVectors; ++v) simd::store(values + v * kWidth, sums[i][v]);
    float* row = c.row(i);
    if (beta == 0.0f) {
      for (int64_t j = 0; j < c.cols; ++j) row[j] = alpha * values[j];
    } else {
      for (int64_t j = 0; j < c.cols; ++j) row[j] = beta * row[j] + alpha * values[j];
    }
  }
}

}  // namespace

void plain_gemm_block(Transpose transpose_a, Transpose transpose_b, float alpha,
                      Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c) {
  const Operand left = operand(transpose_a, a), right = operand(transpose_b, b);
  const int64_t inner = transpose_a == Transpose::kYes ? a.rows : a.cols;
  const int64_t most_inner = std::min(inner, kPanelInner);
  std::vector<float> packed_a(round_up(std::min(c.rows, kPanelRows), kRows) * most_inner);
  std::vector<float> packed_b(round_up(std::min(c.cols, kPanelCols), kCols) * most_inner);
  for (int64_t col = 0; col < c.cols; col += kPanelCols) {
    const int64_t cols = std::min(kPanelCols, c.cols - col);
    for (int64_t k = 0; k < inner; k += kPanelInner) {
      const int64_t depth = std::min(kPanelInner, inner - k);
      pack<kCols>(
          cols, depth, [&](int64_t j, int64_t p) { return right.at(k + p, col + j); },
          packed_b.data());
      for (int64_t row = 0; row < c.rows; row += kPanelRows) {
        const int64_t rows = std::min(kPanelRows, c.rows - row);
        pack<kRows>(
            rows, depth, [&](int64_t i, int64_t p) { return left.at(row + i, k + p); },
            packed_a.data());
        for (int64_t j = 0; j < cols; j += kCols) {
          for (int64_t i = 0; i < rows; i += kRows) {
            Floats sums[kRows][kVectors];
            multiply_groups(packed_a.data() + i * depth, packed_b.data() + j * depth, depth, sums);
            add_to(c.block(row + i, col + j, std::min<int64_t>(kRows, rows - i),
                           std::min<int64_t>(kCols, cols - j)),
                   alpha, k == 0 ? beta : 1.0f, sums);
          }
        }
      }
    }
  }
}

}  // namespace emblem::cpu
