// kernels/cpu/avx512_group_tiles.h - 12 x 32 tiles by instructions that multiply groups of 4 bytes
// and add the products up. What is here is local to the file that includes it, which is compiled
// for one instruction set.
#pragma once

#include "kernels/cpu/avx512_groups.h"
#include "kernels/cpu/few_rows.h"

namespace emblem::cpu {
namespace {

// Product has the types Left and Right of groups, `Sum dot(Sum, left, right)` on 16 of them at a
// time, `Sum correction(Sum, right)`, whose sums are subtracted where kCorrects, and `to_floats`.
template <class Product>
struct GroupTiles {
  static constexpr int kRows = 12, kCols = 32, kVectors = 2;
  using Sum = typename Product::Sum;

  // Groups are in floats' places.
  template <int Rows, int Panels>
  [[gnu::always_inline]] static inline void tile(const float* a, int64_t row_step,
                                                 int64_t group_step, const float* b,
                                                 int64_t panel_stride, int64_t groups, bool add,
                                                 float* c, int64_t stride) {
    constexpr int kSums = Panels * kVectors;
    Sum sums[Rows][kSums] = {}, corrections[kSums] = {};
    for (int64_t g = 0; g < groups; ++g) {
      __m512i line[kSums];
#pragma GCC unroll 12
      for (int v = 0; v < kSums; ++v) {
        line[v] =
            _mm512_loadu_si512(b + v / kVectors * panel_stride + g * kCols + v % kVectors * 16);
        if constexpr (Product::kCorrects)
          corrections[v] = Product::correction(corrections[v], line[v]);
      }
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) {
        const __m512i value = (__m512i)_mm512_set1_ps(a[r * row_step + g * group_step]);
#pragma GCC unroll 12
        for (int v = 0; v < kSums; ++v) sums[r][v] = Product::dot(sums[r][v], value, line[v]);
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 12
      for (int v = 0; v < kSums; ++v) {
        float* to = c + r * stride + v * 16;
        const __m512 sum = Product::to_floats(sums[r][v], corrections[v]);
        _mm512_storeu_ps(to, add ? _mm512_add_ps(sum, _mm512_loadu_ps(to)) : sum);
      }
    }
  }

  template <int Rows, int Panels>
  static void few_tile(const float* x, int64_t x_stride, const float* panels, int64_t panel_stride,
                       int64_t groups, bool add, float* c, int64_t stride) {
    tile<Rows, Panels>(x, x_stride, 1, panels, panel_stride, groups, add, c, stride);
  }

  static constexpr int64_t kDepth = Product::Left::kDepth;
  static int64_t groups_of(int64_t inner) { return (inner + kDepth - 1) / kDepth; }

  static void pack_left(const Lines& lines, int64_t width, std::byte* to) {
    pack_groups<typename Product::Left>(lines, width, 1, to);
  }
  static void pack_right(const Lines& lines, int64_t width, std::byte* to) {
    pack_groups<typename Product::Right>(lines, width, 1, to);
  }

  static void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
                       int64_t stride) {
    tile<kRows, 1>(reinterpret_cast<const float*>(a), 1, kRows, reinterpret_cast<const float*>(b),
                   0, groups_of(inner), add, c, stride);
  }

  template <int Rows>
  using Few = FewRows<GroupTiles, Rows, std::max(1, kRows / Rows / 2)>;

  static void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes,
                           int64_t cols, bool add, float* c, int64_t stride) {
    const int64_t groups = groups_of(x.inner), row_bytes = (groups + kGroups) * kGroupBytes;
    std::byte* const rounded = packing_memory(x.count * row_bytes);
    for (int64_t r = 0; r < x.count; ++r) {
      for (int64_t g = 0; g < groups; g += kGroups)
        _mm512_storeu_si512(rounded + r * row_bytes + g * kGroupBytes,
                            Product::Left::of_line(x, r, g * kDepth));
    }
    const auto run = x.count == 1   ? Few<1>::multiply
                     : x.count == 2 ? Few<2>::multiply
                     : x.count == 3 ? Few<3>::multiply
                                    : Few<4>::multiply;
    run(reinterpret_cast<const float*>(rounded), row_bytes / kGroupBytes,
        reinterpret_cast<const float*>(panels), panel_bytes / kGroupBytes, groups, cols, add, c,
        stride);
  }

  static constexpr int kSpinSums = kRows * kVectors;
  static void spin(int64_t steps) {
    Sum sums[kSpinSums] = {};
    __m512i factor = _mm512_set1_epi8(1), value = factor;
    for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
      for (int i = 0; i < kSpinSums; ++i) {
        __asm__ volatile("" : "+v"(factor));  // as if it changed
        sums[i] = Product::dot(sums[i], factor, value);
      }
    }
    for (int i = 1; i < kSpinSums; ++i) sums[0] += sums[i];
    __asm__ volatile("" : : "v"(sums[0]));
  }

  static constexpr TileKernel kernel(const char* name, DType type) {
    return {.name = name,
            .type = type,
            .rows = kRows,
            .cols = kCols,
            .depth = kDepth,
            .element_bytes = kGroupBytes / kDepth,
            .pack_left = pack_left,
            .pack_right = pack_right,
            .multiply = multiply,
            .multiply_few = multiply_few,
            .spin = spin,
            .spin_flops = kSpinSums * 16 * kDepth * 2};
  }
};

}  // namespace
}  // namespace emblem::cpu
