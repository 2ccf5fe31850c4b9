#include "kernels/tile_gemm.h"

#include <algorithm>

#include "core/memory/scratch_memory.h"
#include "core/threads/thread_pool.h"
#include "kernels/cpu/tile_product.h"

namespace emblem::cpu {
namespace {

// Lines that a thread packs, and rows and columns of C that it computes at a time: panels of both
// matrices stay in its L2 cache, and layers of common sizes occupy a dozen threads.
constexpr int64_t kLinesAtATime = 128, kRowsAtATime = 96, kColsAtATime = 256;

// Some rows of a matrix, or, `turned`, columns, and of these `inner` elements from k on.
Lines lines_of(Matrix<const float> m, bool turned, int64_t first, int64_t count, int64_t k,
               int64_t inner) {
  return {.data = turned ? m.row(k) + first : m.row(first) + k,
          .count = count,
          .inner = inner,
          .step = turned ? 1 : m.stride,
          .inner_step = turned ? m.stride : 1};
}

// `count` lines in parts of whole panels of `width` lines.
struct Parts {
  int64_t count, each;

  Parts(int64_t count, int64_t width, int64_t most)
      : count(count), each(std::max<int64_t>(1, most / width) * width) {}
  int64_t size() const { return (count + each - 1) / each; }
  int64_t first(int64_t part) const { return part * each; }
  int64_t lines(int64_t part) const { return std::min(each, count - first(part)); }
};

}  // namespace

void tile_gemm(const Context& context, const TileKernel& kernel, Transpose transpose_a,
               Transpose transpose_b, float alpha, Matrix<const float> a, Matrix<const float> b,
               int64_t inner, float beta, Matrix<float> c) {
  static thread_local ScratchMemory<std::byte> left_memory, right_memory;
  if (beta != 0.0f && beta != 1.0f) scale(beta, c);
  const bool turn_a = transpose_a == Transpose::kYes, turn_b = transpose_b == Transpose::kYes;
  const Parts packed_rows(c.rows, kernel.rows, kLinesAtATime),
      packed_cols(c.cols, kernel.cols, kLinesAtATime), rows(c.rows, kernel.rows, kRowsAtATime),
      cols(c.cols, kernel.cols, kColsAtATime);
  const int64_t step = inner_block(inner);
  for (int64_t k = 0; k < inner; k += step) {
    const int64_t count = std::min(step, inner - k);
    const auto left =
        [&, memory = left_memory.take(kernel.bytes_for(c.rows, kernel.rows, count))](int64_t row) {
          return memory + row / kernel.rows * kernel.panel_bytes(kernel.rows, count);
        };
    const auto right =
        [&, memory = right_memory.take(kernel.bytes_for(c.cols, kernel.cols, count))](int64_t col) {
          return memory + col / kernel.cols * kernel.panel_bytes(kernel.cols, count);
        };
    parallel_for(context, packed_rows.size() + packed_cols.size(), 1, [&](int64_t part, int64_t) {
      if (part < packed_cols.size()) {
        const int64_t col = packed_cols.first(part);
        return kernel.pack_right(lines_of(b, !turn_b, col, packed_cols.lines(part), k, count),
                                 kernel.cols, right(col));
      }
      part -= packed_cols.size();
      const int64_t row = packed_rows.first(part);
      const Lines lines = lines_of(a, turn_a, row, packed_rows.lines(part), k, count);
      kernel.pack_left(scaled(kernel, lines, alpha), kernel.rows, left(row));
    });
    parallel_for(context, rows.size() * cols.size(), 1, [&](int64_t block, int64_t) {
      const int64_t row = block / cols.size(), col = block % cols.size();
      multiply_panels(kernel, left(rows.first(row)), rows.lines(row), count, right(cols.first(col)),
                      cols.lines(col), beta != 0.0f || k > 0,
                      c.row(rows.first(row)) + cols.first(col), c.stride);
    });
  }
}

void tile_gemm(const TileKernel& kernel, Transpose transpose_a, Transpose transpose_b, float alpha,
               Matrix<const float> a, Matrix<const float> b, int64_t inner, float beta,
               Matrix<float> c) {
  static thread_local ScratchMemory<std::byte> memory;
  if (beta != 0.0f && beta != 1.0f) scale(beta, c);
  const bool turn_a = transpose_a == Transpose::kYes, turn_b = transpose_b == Transpose::kYes;
  const int64_t step = inner_block(inner);
  for (int64_t k = 0; k < inner; k += step) {
    const int64_t count = std::min(step, inner - k);
    std::byte* const right = memory.take(kernel.bytes_for(c.cols, kernel.cols, count));
    kernel.pack_right(lines_of(b, !turn_b, 0, c.cols, k, count), kernel.cols, right);
    multiply_panels(kernel, lines_of(a, turn_a, 0, c.rows, k, count), alpha, right,
                    kernel.panel_bytes(kernel.cols, count), c.cols, beta != 0.0f || k > 0, c.data,
                    c.stride);
  }
}

}  // namespace emblem::cpu
