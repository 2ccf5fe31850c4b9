// Elements are rounded while they are packed. A product of int8 is exact in fp32.
#include <algorithm>
#include <cmath>

#include "core/memory/scratch_memory.h"
#include "kernels/cpu/panels.h"

namespace emblem::cpu {
namespace {

const TileKernel* base = nullptr;

float to_bf16(float value) { return Bf16::from(value).to_float(); }

float to_int8(float value, const Lines& lines, int64_t k) {
  const float scaled = value * (lines.factors == nullptr ? 1.0f : lines.factors[k]);
  const float rounded = std::nearbyint(std::min(std::max(scaled, -kInt8Limit), kInt8Limit));
  const float zero = lines.zeros == nullptr ? 0.0f : static_cast<float>(lines.zeros[k]);
  return std::min(std::max(rounded + zero, -128.0f), 127.0f);
}

// Rounds one line, or all lines of a panel: [inner][width].
template <DType kType>
void round_elements(const Lines& lines, int64_t width, float* values) {
  for (int64_t k = 0; k < lines.inner; ++k, values += width) {
    for (int64_t i = 0; i < width; ++i)
      values[i] = kType == DType::kBf16 ? to_bf16(values[i]) : to_int8(values[i], lines, k);
  }
}

template <DType kType>
void pack(const Lines& lines, int64_t width, std::byte* to) {
  pack_floats(lines, width, to);
  float* panel = reinterpret_cast<float*>(to);
  for (int64_t line = 0; line < lines.count; line += width, panel += width * lines.inner)
    round_elements<kType>(lines, width, panel);
}

template <DType kType>
void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes, int64_t cols,
                  bool add, float* c, int64_t stride) {
  static thread_local ScratchMemory<float> memory;
  float* const rounded = memory.take(static_cast<size_t>(x.count * x.inner));
  for (int64_t r = 0; r < x.count; ++r) {
    std::copy_n(x.data + r * x.step, x.inner, rounded + r * x.inner);
    round_elements<kType>(x, 1, rounded + r * x.inner);
  }
  base->multiply_few({rounded, x.count, x.inner, x.inner, 1}, panels, panel_bytes, cols, add, c,
                     stride);
}

template <DType kType>
TileKernel over(const TileKernel& fp32, const char* name) {
  base = &fp32;
  TileKernel kernel = fp32;
  kernel.name = name;
  kernel.type = kType;
  kernel.pack_left = kernel.pack_right = pack<kType>;
  kernel.multiply_few = multiply_few<kType>;
  kernel.multiply_copied = nullptr;  // rows are rounded while they become panels
  return kernel;
}

}  // namespace

const TileKernel& rounding_tiles(DType type, const TileKernel& fp32) {
  static const TileKernel bf16 = over<DType::kBf16>(fp32, "rounding");
  static const TileKernel int8 = over<DType::kInt8>(fp32, "rounding_int8");
  return type == DType::kBf16 ? bf16 : int8;
}

}  // namespace emblem::cpu
