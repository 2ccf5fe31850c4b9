// Compiled for Arm's i8mm extension, whose instruction multiplies 2 x 8 and 8 x 2 elements.
#if defined(__aarch64__)
#include <arm_neon.h>

#include <algorithm>

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {
namespace {

constexpr int kRows = 12, kCols = 8, kDepth = 8;

inline int32x4_t rounded(float32x4_t values, float32x4_t factors, int32x4_t zeros) {
  const float32x4_t limit = vdupq_n_f32(kInt8Limit);
  const float32x4_t scaled =
      vminq_f32(vmaxq_f32(vmulq_f32(values, factors), vnegq_f32(limit)), limit);
  return vaddq_s32(vcvtnq_s32_f32(scaled), zeros);
}

// Elements [k, k + 8) of one line; 0 beyond the last becomes what a 0 becomes, and is multiplied
// by 0.
void pack_eight(const Lines& from, int64_t line, int64_t k, std::byte* to) {
  float values[kDepth] = {}, factors[kDepth];
  int32_t zeros[kDepth] = {};
  std::fill_n(factors, kDepth, 1.0f);
  const int64_t count = std::min<int64_t>(kDepth, from.inner - k);
  const float* data = from.data + line * from.step + k * from.inner_step;
  if (from.inner_step == 1) {
    std::copy_n(data, count, values);
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] = data[i * from.inner_step];
  }
  if (from.factors != nullptr) std::copy_n(from.factors + k, count, factors);
  if (from.zeros != nullptr) std::copy_n(from.zeros + k, count, zeros);
  const int32x4_t low = rounded(vld1q_f32(values), vld1q_f32(factors), vld1q_s32(zeros));
  const int32x4_t high =
      rounded(vld1q_f32(values + 4), vld1q_f32(factors + 4), vld1q_s32(zeros + 4));
  const int16x8_t narrow = vcombine_s16(vqmovn_s32(low), vqmovn_s32(high));
  vst1_s8(reinterpret_cast<int8_t*>(to), vqmovn_s16(narrow));
}

void pack(const Lines& from, int64_t width, std::byte* to) {
  for (int64_t first = 0; first < from.count; first += width) {
    const int64_t count = std::min(width, from.count - first);
    for (int64_t k = 0; k < from.inner; k += kDepth, to += width * kDepth) {
      for (int64_t i = 0; i < count; ++i) pack_eight(from, first + i, k, to + i * kDepth);
      std::fill(to + count * kDepth, to + width * kDepth, std::byte{0});
    }
  }
}

}  // namespace
}  // namespace emblem::cpu

#define EMBLEM_MULTIPLY(sum, a, b) "smmla v" #sum ".4s, v" #a ".16b, v" #b ".16b\n"
#define EMBLEM_TO_FLOATS \
  "scvtf v24.4s, v24.4s\n scvtf v25.4s, v25.4s\n scvtf v26.4s, v26.4s\n scvtf v27.4s, v27.4s\n"
#include "kernels/cpu/neon_pairs.h"

namespace emblem::cpu {
namespace {

struct Int8Product {
  using Sum = int32x4_t;
  static constexpr int64_t kElementBytes = 1;

  static Sum multiply(Sum sum, const std::byte* a, const std::byte* b) {
    return vmmlaq_s32(sum, vld1q_s8(reinterpret_cast<const int8_t*>(a)),
                      vld1q_s8(reinterpret_cast<const int8_t*>(b)));
  }
  static float32x4_t to_floats(Sum sum) { return vcvtq_f32_s32(sum); }
};

}  // namespace

const TileKernel kNeonInt8Tiles = pair_kernel<Int8Product>("neon_int8", DType::kInt8);

}  // namespace emblem::cpu
#endif
