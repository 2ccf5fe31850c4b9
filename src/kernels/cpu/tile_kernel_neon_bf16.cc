// Compiled for Arm's bf16 extension, whose instruction multiplies 2 x 4 and 4 x 2 elements.
#if defined(__aarch64__)
#include <arm_neon.h>

#include <algorithm>

#include "kernels/cpu/panels.h"

namespace emblem::cpu {
namespace {

constexpr int kRows = 12, kCols = 8, kDepth = 4;

using Element = uint16_t;

// ---- packing ----

inline void store_rounded(Element* to, Four values) {
  vst1_bf16(reinterpret_cast<bfloat16_t*>(to), vcvt_bf16_f32((float32x4_t)values));
}

// Elements [k, k + 4) of one line, with zeros beyond the last.
Four load_some(const Lines& from, int64_t line, int64_t k) {
  const float* data = from.data + line * from.step + k * from.inner_step;
  Four values = {};
  for (int64_t j = 0; j < std::min<int64_t>(4, from.inner - k); ++j)
    values[j] = data[j * from.inner_step];
  return values;
}

// Elements [k, k + 4) of `count` lines that all have them.
void pack_four(const Lines& from, int64_t first, int64_t count, int64_t k, Element* to) {
  const float* data = from.data + first * from.step + k * from.inner_step;
  int64_t i = 0;
  if (from.inner_step == 1) {
    for (; i < count; ++i) store_rounded(to + i * kDepth, load_four(data + i * from.step));
    return;
  }
  for (; i + 4 <= count; i += 4) {
    const FourByFour lines = load_transposed(data + i, from.inner_step);
    for (int j = 0; j < 4; ++j) store_rounded(to + (i + j) * kDepth, lines.rows[j]);
  }
  for (; i < count; ++i) store_rounded(to + i * kDepth, load_some(from, first + i, k));
}

void pack(const Lines& from, int64_t width, std::byte* bytes) {
  Element* to = reinterpret_cast<Element*>(bytes);
  for (int64_t first = 0; first < from.count; first += width) {
    const int64_t count = std::min(width, from.count - first);
    for (int64_t k = 0; k < from.inner; k += kDepth, to += width * kDepth) {
      if (k + kDepth <= from.inner) {
        pack_four(from, first, count, k, to);
      } else {
        for (int64_t i = 0; i < count; ++i)
          store_rounded(to + i * kDepth, load_some(from, first + i, k));
      }
      std::fill(to + count * kDepth, to + width * kDepth, Element{0});
    }
  }
}

}  // namespace
}  // namespace emblem::cpu

#define EMBLEM_MULTIPLY(sum, a, b) "bfmmla v" #sum ".4s, v" #a ".8h, v" #b ".8h\n"
#define EMBLEM_TO_FLOATS ""
#include "kernels/cpu/neon_pairs.h"

namespace emblem::cpu {
namespace {

struct Bf16Product {
  using Sum = float32x4_t;
  static constexpr int64_t kElementBytes = sizeof(Element);

  static Sum multiply(Sum sum, const std::byte* a, const std::byte* b) {
    return vbfmmlaq_f32(sum, vld1q_bf16(reinterpret_cast<const bfloat16_t*>(a)),
                        vld1q_bf16(reinterpret_cast<const bfloat16_t*>(b)));
  }
  static float32x4_t to_floats(Sum sum) { return sum; }
};

}  // namespace

const TileKernel kNeonBf16Tiles = pair_kernel<Bf16Product>("neon_bf16", DType::kBf16);

}  // namespace emblem::cpu
#endif
