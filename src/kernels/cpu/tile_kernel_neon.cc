// 12 x 8 tiles: 24 of 32 registers hold sums. In assembly, because compilers move sums between
// registers; the order of instructions is the fastest of those measured on a Neoverse V1.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/cpu/few_rows.h"
#include "kernels/cpu/panels.h"

namespace emblem::cpu {
namespace {

constexpr int kRows = 12;

// ---- tiles of panels ----

// clang-format off

// Row r's sums are in v(2r) and v(2r + 1), B's line in v24 and v25, A's in v26 to v28 and, every
// other time, in v29 to v31: lines are loaded while those before them are multiplied.
#define SUMS(X) \
  X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(8, 9) X(10, 11) X(12, 13) X(14, 15) X(16, 17) X(18, 19) \
  X(20, 21) X(22, 23)
#define ZERO(s, t) "movi v" #s ".4s, #0\n movi v" #t ".4s, #0\n"
#define LOAD(s, t) "ldp q" #s ", q" #t ", [x9]\n add x9, x9, %[stride]\n"
#define STORE(s, t) "stp q" #s ", q" #t ", [%[c]]\n add %[c], %[c], %[stride]\n"
#define FMA(sum, b, a, lane) "fmla v" #sum ".4s, v" #b ".4s, v" #a ".s[" #lane "]\n"
#define FOUR(b, a, s, t, u, v) FMA(s, b, a, 0) FMA(t, b, a, 1) FMA(u, b, a, 2) FMA(v, b, a, 3)
// A line in registers a0 to a2; the one after it, from at_a and at_b on, is loaded into n0 to n2.
#define LINE(a0, a1, a2, n0, n1, n2, at_a, at_a2, at_b, at_b2) \
  FOUR(24, a0, 0, 2, 4, 6) \
  "ldp q" #n0 ", q" #n1 ", [%[a], #" #at_a "]\n" \
  FOUR(24, a1, 8, 10, 12, 14) \
  "ldr q" #n2 ", [%[a], #" #at_a2 "]\n" \
  FOUR(24, a2, 16, 18, 20, 22) \
  FMA(1, 25, a0, 0) FMA(3, 25, a0, 1) \
  "ldr q24, [%[b], #" #at_b "]\n" \
  FMA(5, 25, a0, 2) FMA(7, 25, a0, 3) \
  FOUR(25, a1, 9, 11, 13, 15) FOUR(25, a2, 17, 19, 21, 23) \
  "ldr q25, [%[b], #" #at_b2 "]\n"

void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
              int64_t stride) {
  int64_t twos = inner / 2;
  asm volatile(
      "cbz %w[add], 1f\n mov x9, %[c]\n" SUMS(LOAD) "b 2f\n"
      "1:\n" SUMS(ZERO)
      "2: ldp q26, q27, [%[a]]\n ldr q28, [%[a], #32]\n ldp q24, q25, [%[b]]\n"
      "cbz %[twos], 4f\n"
      "3:\n" LINE(26, 27, 28, 29, 30, 31, 48, 80, 32, 48)
      LINE(29, 30, 31, 26, 27, 28, 96, 128, 64, 80)
      "add %[a], %[a], #96\n add %[b], %[b], #64\n subs %[twos], %[twos], #1\n b.ne 3b\n"
      "4: cbz %[odd], 5f\n" LINE(26, 27, 28, 29, 30, 31, 0, 32, 0, 16)
      "5:\n" SUMS(STORE)
      : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [twos] "+r"(twos)
      : [stride] "r"(stride * int64_t{sizeof(float)}), [add] "r"(static_cast<int>(add)),
        [odd] "r"(inner % 2)
      : "x9", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",
        "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
        "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}

#define SPIN(s, t) \
  "fmla v" #s ".4s, v24.4s, v25.4s\n fmla v" #t ".4s, v24.4s, v25.4s\n"

void spin(int64_t steps) {
  asm volatile(
      "movi v24.4s, #0\n movi v25.4s, #0\n" SUMS(ZERO)
      "1:\n" SUMS(SPIN) "subs %[steps], %[steps], #1\n b.ne 1b\n"
      : [steps] "+r"(steps)
      :
      : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
        "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25");
}

#undef SPIN
#undef LINE
#undef FOUR
#undef FMA
#undef STORE
#undef LOAD
#undef ZERO
#undef SUMS
// clang-format on

// ---- few rows ----

template <int Lane, int Rows, int Sums>
inline void add_line(const float32x4_t (&x)[Rows], const float* panels, int64_t panel_stride,
                     float32x4_t (&sums)[Rows][Sums]) {
#pragma GCC unroll 16
  for (int v = 0; v < Sums; ++v) {
    const float32x4_t line = vld1q_f32(panels + v / 2 * panel_stride + v % 2 * 4);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) sums[r][v] = vfmaq_laneq_f32(sums[r][v], line, x[r], Lane);
  }
}

struct Tiles {
  static constexpr int kCols = 8;
  template <int Rows, int Panels>
  static void few_tile(const float* x, int64_t x_stride, const float* panels, int64_t panel_stride,
                       int64_t inner, bool add, float* c, int64_t stride) {
    float32x4_t sums[Rows][2 * Panels];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < 2 * Panels; ++v)
        sums[r][v] = add ? vld1q_f32(c + r * stride + v * 4) : vdupq_n_f32(0.0f);
    }
    float32x4_t values[Rows];
    int64_t k = 0;
#pragma GCC unroll 1
    for (; k + 4 <= inner; k += 4) {
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) values[r] = vld1q_f32(x + r * x_stride + k);
      add_line<0>(values, panels + k * kCols, panel_stride, sums);
      add_line<1>(values, panels + (k + 1) * kCols, panel_stride, sums);
      add_line<2>(values, panels + (k + 2) * kCols, panel_stride, sums);
      add_line<3>(values, panels + (k + 3) * kCols, panel_stride, sums);
    }
#pragma GCC unroll 1
    for (; k < inner; ++k) {
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) values[r] = vdupq_n_f32(x[r * x_stride + k]);
      add_line<0>(values, panels + k * kCols, panel_stride, sums);
    }
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < 2 * Panels; ++v) vst1q_f32(c + r * stride + v * 4, sums[r][v]);
    }
  }
};

void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes, int64_t cols,
                  bool add, float* c, int64_t stride) {
  const auto run = x.count == 1   ? FewRows<Tiles, 1, 4>::multiply
                   : x.count == 2 ? FewRows<Tiles, 2, 4>::multiply
                   : x.count == 3 ? FewRows<Tiles, 3, 2>::multiply
                                  : FewRows<Tiles, 4, 1>::multiply;
  run(x.data, x.step, reinterpret_cast<const float*>(panels), panel_bytes / int64_t{sizeof(float)},
      x.inner, cols, add, c, stride);
}

}  // namespace

const TileKernel kNeonTiles = {.name = "neon",
                               .type = DType::kF32,
                               .rows = kRows,
                               .cols = Tiles::kCols,
                               .depth = 1,
                               .element_bytes = sizeof(float),
                               .pack_left = pack_floats,
                               .pack_right = pack_floats,
                               .multiply = multiply,
                               .multiply_few = multiply_few,
                               .spin = spin,
                               .spin_flops = 24 * 8};

}  // namespace emblem::cpu
#endif
