// kernels/cpu/vector_tiles.h - tile kernels in vectors of the compiler's. Each instruction set has
// a file of its own that includes this one and is compiled for it; what is here is local to that
// file.
#pragma once

#include <utility>

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

// Tiles of kRows rows in panels, and of up to kMostRows rows that were copied (TileKernel::rows and
// most_copied_rows).
template <int kLanes, int kVectors, int kRows, int kMostRows = kRows>
struct VectorTiles {
  static constexpr int kCols = kLanes * kVectors;
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

  static Lanes load(const float* from) {
    Lanes value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void store(float* to, Lanes value) { __builtin_memcpy(to, &value, sizeof(value)); }

  // Sums of Rows rows and all columns of some panels. The loops over them are unrolled, or else the
  // compiler keeps them in memory.
  template <int Rows, int Panels>
  struct Sums {
    static constexpr int kCount = Panels * kVectors;
    Lanes value[Rows][kCount];

    [[gnu::always_inline]] inline void start(bool add, const float* c, int64_t stride) {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) value[r][v] = Lanes{};
      }
      if (!add) return;
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) value[r][v] = load(c + r * stride + v * kLanes);
      }
    }

    // Adds the products of elements row_step apart and a line of the panels.
    [[gnu::always_inline]] inline void add(const float* a, int64_t row_step, const float* b,
                                           int64_t panel_stride) {
      Lanes line[kCount];
#pragma GCC unroll 16
      for (int v = 0; v < kCount; ++v)
        line[v] = load(b + v / kVectors * panel_stride + v % kVectors * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const float element = a[r * row_step];
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) value[r][v] += line[v] * element;
      }
    }

    [[gnu::always_inline]] inline void finish(const Finish& finish) {
      if (finish.bias != nullptr) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) {
          const Lanes bias = load(finish.bias + v * kLanes);
#pragma GCC unroll 16
          for (int r = 0; r < Rows; ++r) value[r][v] += bias;
        }
      }
      if (!finish.relu) return;
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v)
          value[r][v] = value[r][v] < Lanes{} ? Lanes{} : value[r][v];
      }
    }

    [[gnu::always_inline]] inline void store_at(float* c, int64_t stride) const {
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kCount; ++v) store(c + r * stride + v * kLanes, value[r][v]);
      }
    }
  };

  // Element (r, k) of the left matrix is at a[r * row_step + k * inner_step]. Inlined, because one
  // of the steps is a constant.
  template <int Rows, int Panels>
  [[gnu::always_inline]] static inline void tile(const float* a, int64_t row_step,
                                                 int64_t inner_step, const float* b,
                                                 int64_t panel_stride, int64_t inner, bool add,
                                                 float* c, int64_t stride) {
    Sums<Rows, Panels> sums;
    sums.start(add, c, stride);
    for (int64_t k = 0; k < inner; ++k)
      sums.add(a + k * inner_step, row_step, b + k * kCols, panel_stride);
    sums.store_at(c, stride);
  }

  static void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
                       int64_t stride) {
    tile<kRows, 1>(reinterpret_cast<const float*>(a), 1, kRows, reinterpret_cast<const float*>(b),
                   0, inner, add, c, stride);
  }

  // A prefetch for two lines of the panel.
  template <int Rows>
  static void copied_tile(const CopiedTile& tile) {
    constexpr int64_t kStep = TileKernel::kCopiedStride;
    const float *a = tile.a, *b = reinterpret_cast<const float*>(tile.b);
    Ahead ahead = tile.ahead;
    Sums<Rows, 1> sums;
    sums.start(tile.add, tile.c, tile.stride);
    for (int64_t k = 1; k < tile.inner; k += 2, a += 2, b += 2 * kCols) {
      ahead.prefetch();
      sums.add(a, kStep, b, 0);
      sums.add(a + 1, kStep, b + kCols, 0);
    }
    if (tile.inner % 2 != 0) sums.add(a, kStep, b, 0);
    sums.finish(tile.finish);
    sums.store_at(tile.c, tile.stride);
  }

  static void multiply_copied(int64_t rows, const CopiedTile& tile) {
    const auto choose = [&]<int... Less>(std::integer_sequence<int, Less...>) {
      static constexpr void (*kTiles[])(const CopiedTile&) = {copied_tile<Less + 1>...};
      kTiles[rows - 1](tile);
    };
    choose(std::make_integer_sequence<int, kMostRows>());
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
            .most_copied_rows = kMostRows,
            .multiply_copied = multiply_copied,
            .spin = spin,
            .spin_flops = kSums * kLanes * 2};
  }
};

}  // namespace
}  // namespace emblem::cpu
