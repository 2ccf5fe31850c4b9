// kernels/cpu/vector_tiles.h - tile kernels in vectors of the compiler's. Each instruction set has
// a file of its own that includes this one and is compiled for it; what is here is local to that
// file.
#pragma once

#include "kernels/cpu/few_rows.h"
#include "kernels/cpu/panels.h"

#if defined(__x86_64__)
#define EMBLEM_IN_REGISTER(vector) "+v"(vector)
#elif defined(__aarch64__)
#define EMBLEM_IN_REGISTER(vector) "+w"(vector)
#else
#define EMBLEM_IN_REGISTER(vector) "+m"(vector)
#endif

namespace emblem::cpu {
namespace {

template <int kLanes, int kVectors, int kRows>
struct VectorTiles {
  static constexpr int kCols = kLanes * kVectors;
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

  static Lanes load(const float* from) {
    Lanes value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void store(float* to, Lanes value) { __builtin_memcpy(to, &value, sizeof(value)); }

  // Element (r, k) of the left matrix is at a[r * row_step + k * inner_step]. Inlined, because one
  // of the steps is a constant.
  template <int Rows, int Panels>
  [[gnu::always_inline]] static inline void tile(const float* a, int64_t row_step,
                                                 int64_t inner_step, const float* b,
                                                 int64_t panel_stride, int64_t inner, bool add,
                                                 float* c, int64_t stride) {
    constexpr int kSums = Panels * kVectors;
    Lanes sums[Rows][kSums] = {};
    if (add) {
      for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < kSums; ++v) sums[r][v] = load(c + r * stride + v * kLanes);
    }
    for (int64_t k = 0; k < inner; ++k) {
      Lanes line[kSums];
      for (int v = 0; v < kSums; ++v)
        line[v] = load(b + v / kVectors * panel_stride + k * kCols + v % kVectors * kLanes);
      for (int r = 0; r < Rows; ++r) {
        const float value = a[r * row_step + k * inner_step];
        for (int v = 0; v < kSums; ++v) sums[r][v] += line[v] * value;
      }
    }
    for (int r = 0; r < Rows; ++r)
      for (int v = 0; v < kSums; ++v) store(c + r * stride + v * kLanes, sums[r][v]);
  }

  static void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
                       int64_t stride) {
    tile<kRows, 1>(reinterpret_cast<const float*>(a), 1, kRows, reinterpret_cast<const float*>(b),
                   0, inner, add, c, stride);
  }

  template <int Rows, int Panels>
  static void few_tile(const float* x, int64_t x_stride, const float* panels, int64_t panel_stride,
                       int64_t inner, bool add, float* c, int64_t stride) {
    tile<Rows, Panels>(x, x_stride, 1, panels, panel_stride, inner, add, c, stride);
  }
  template <int Rows>
  using Few = FewRows<VectorTiles, Rows, std::max(1, kRows / Rows / 2)>;

  static void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes,
                           int64_t cols, bool add, float* c, int64_t stride) {
    const auto run = x.count == 1   ? Few<1>::multiply
                     : x.count == 2 ? Few<2>::multiply
                     : x.count == 3 ? Few<3>::multiply
                                    : Few<4>::multiply;
    run(x.data, x.step, reinterpret_cast<const float*>(panels),
        panel_bytes / int64_t{sizeof(float)}, x.inner, cols, add, c, stride);
  }

  static constexpr int kSums = kVectors * kRows;
  static void spin(int64_t steps) {
    Lanes sums[kSums] = {}, factor = load_same(0.5f), value = load_same(1.5f);
    for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 32
      for (int i = 0; i < kSums; ++i) {
        __asm__ volatile("" : EMBLEM_IN_REGISTER(factor));  // as if it changed
        sums[i] += factor * value;
      }
    }
    for (int i = 1; i < kSums; ++i) sums[0] += sums[i];
    __asm__ volatile("" : : "m"(sums[0]));
  }
  static Lanes load_same(float value) { return value - Lanes{}; }

  static constexpr TileKernel kernel(const char* name) {
    return {.name = name,
            .type = DType::kF32,
            .rows = kRows,
            .cols = kCols,
            .depth = 1,
            .element_bytes = sizeof(float),
            .pack_left = pack_floats,
            .pack_right = pack_floats,
            .multiply = multiply,
            .multiply_few = multiply_few,
            .spin = spin,
            .spin_flops = kSums * kLanes * 2};
  }
};

}  // namespace
}  // namespace emblem::cpu
