// kernels/cpu/neon_pairs.h - 12 x 8 tiles by instructions that multiply two rows by two columns of
// 8 bytes each. The file that includes this one, which is compiled for one instruction set, has
// kRows, kCols, kDepth, pack() and the macros EMBLEM_MULTIPLY, the instruction, and
// EMBLEM_TO_FLOATS, what makes floats of sums in v24 to v27; what is here is local to it.
#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {
namespace {

// ---- tiles of panels ----

// clang-format off

// Rows 2i and 2i + 1 of columns 2j and 2j + 1 are in v(4i + j), A's rows in v24 to v29, two pairs
// of B's columns in v30 and v31. Registers are loaded again while others are multiplied.
#define EACH(X) \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
  X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#define ZERO(sum) "movi v" #sum ".4s, #0\n"
#define LAST_FIVE(b, s, t, u, v, w) \
  EMBLEM_MULTIPLY(s, 25, b) EMBLEM_MULTIPLY(t, 26, b) EMBLEM_MULTIPLY(u, 27, b) \
  EMBLEM_MULTIPLY(v, 28, b) EMBLEM_MULTIPLY(w, 29, b)
#define FOUR \
  EMBLEM_MULTIPLY(0, 24, 30) LAST_FIVE(30, 4, 8, 12, 16, 20) \
  EMBLEM_MULTIPLY(1, 24, 31) "ldr q30, [%[b], #32]\n" LAST_FIVE(31, 5, 9, 13, 17, 21) \
  EMBLEM_MULTIPLY(2, 24, 30) "ldr q31, [%[b], #48]\n" LAST_FIVE(30, 6, 10, 14, 18, 22) \
  EMBLEM_MULTIPLY(3, 24, 31) "ldr q30, [%[b], #64]\n" \
  EMBLEM_MULTIPLY(7, 25, 31) EMBLEM_MULTIPLY(11, 26, 31) EMBLEM_MULTIPLY(15, 27, 31) \
  "ldp q24, q25, [%[a], #96]\n ldp q26, q27, [%[a], #128]\n" \
  EMBLEM_MULTIPLY(19, 28, 31) EMBLEM_MULTIPLY(23, 29, 31) \
  "ldp q28, q29, [%[a], #160]\n ldr q31, [%[b], #80]\n"
#define TWO_ROWS(p, q, r, s) \
  "zip1 v24.2d, v" #p ".2d, v" #q ".2d\n zip1 v25.2d, v" #r ".2d, v" #s ".2d\n" \
  "zip2 v26.2d, v" #p ".2d, v" #q ".2d\n zip2 v27.2d, v" #r ".2d, v" #s ".2d\n" EMBLEM_TO_FLOATS \
  "add x9, %[c], %[stride]\n cbz %w[add], 9f\n" \
  "ldp q28, q29, [%[c]]\n ldp q30, q31, [x9]\n" \
  "fadd v24.4s, v24.4s, v28.4s\n fadd v25.4s, v25.4s, v29.4s\n" \
  "fadd v26.4s, v26.4s, v30.4s\n fadd v27.4s, v27.4s, v31.4s\n" \
  "9: stp q24, q25, [%[c]]\n stp q26, q27, [x9]\n add %[c], x9, %[stride]\n"

void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
              int64_t stride) {
  int64_t fours = (inner + kDepth - 1) / kDepth;
  asm volatile(
      EACH(ZERO)
      "ldp q24, q25, [%[a]]\n ldp q26, q27, [%[a], #32]\n ldp q28, q29, [%[a], #64]\n"
      "ldp q30, q31, [%[b]]\n"
      "1:\n" FOUR
      "add %[a], %[a], #96\n add %[b], %[b], #64\n subs %[fours], %[fours], #1\n b.ne 1b\n"
      TWO_ROWS(0, 1, 2, 3) TWO_ROWS(4, 5, 6, 7) TWO_ROWS(8, 9, 10, 11)
      TWO_ROWS(12, 13, 14, 15) TWO_ROWS(16, 17, 18, 19) TWO_ROWS(20, 21, 22, 23)
      : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [fours] "+r"(fours)
      : [stride] "r"(stride * int64_t{sizeof(float)}), [add] "r"(static_cast<int>(add))
      : "x9", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",
        "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
        "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

#define SPIN(sum) EMBLEM_MULTIPLY(sum, 30, 31)

void spin(int64_t steps) {
  asm volatile(
      "movi v30.4s, #0\n movi v31.4s, #0\n" EACH(ZERO)
      "1:\n" EACH(SPIN) "subs %[steps], %[steps], #1\n b.ne 1b\n"
      : [steps] "+r"(steps)
      :
      : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
        "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31");
}

#undef SPIN
#undef TWO_ROWS
#undef FOUR
#undef LAST_FIVE
#undef EMBLEM_MULTIPLY
#undef EMBLEM_TO_FLOATS
#undef ZERO
#undef EACH
// clang-format on

// ---- few rows ----

// One panel and up to 2 x Pairs rows, packed to that width.
template <class Product, int Pairs>
void few_columns(const std::byte* a, const std::byte* b, int64_t inner, int64_t rows, int64_t cols,
                 bool add, float* c, int64_t stride) {
  typename Product::Sum sums[Pairs][4] = {};
  for (int64_t k = 0; k < inner; k += kDepth, a += 16 * Pairs, b += 64) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 2
      for (int i = 0; i < Pairs; ++i)
        sums[i][j] = Product::multiply(sums[i][j], a + 16 * i, b + 16 * j);
    }
  }
  float part[2 * Pairs][kCols];
  for (int i = 0; i < Pairs; ++i) {
    for (int j = 0; j < 4; ++j) {
      const float32x4_t sum = Product::to_floats(sums[i][j]);
      vst1_f32(part[2 * i] + 2 * j, vget_low_f32(sum));
      vst1_f32(part[2 * i + 1] + 2 * j, vget_high_f32(sum));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* to = c + r * stride;
    for (int64_t j = 0; j < cols; ++j) to[j] = (add ? to[j] : 0.0f) + part[r][j];
  }
}

template <class Product>
void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes, int64_t cols,
                  bool add, float* c, int64_t stride) {
  const int64_t width = x.count <= 2 ? 2 : 4;
  std::byte* const packed = packing_memory(width * (x.inner + kDepth) * Product::kElementBytes);
  pack(x, width, packed);
  const auto run = width == 2 ? few_columns<Product, 1> : few_columns<Product, 2>;
  for (int64_t col = 0; col < cols; col += kCols, panels += panel_bytes) {
    run(packed, panels, x.inner, x.count, std::min<int64_t>(kCols, cols - col), add, c + col,
        stride);
  }
}

template <class Product>
constexpr TileKernel pair_kernel(const char* name, DType type) {
  return {.name = name,
          .type = type,
          .rows = kRows,
          .cols = kCols,
          .depth = kDepth,
          .element_bytes = Product::kElementBytes,
          .pack_left = pack,
          .pack_right = pack,
          .multiply = multiply,
          .multiply_few = multiply_few<Product>,
          .spin = spin,
          .spin_flops = 24 * 8 * kDepth};
}

}  // namespace
}  // namespace emblem::cpu
