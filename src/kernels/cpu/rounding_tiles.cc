// Elements are rounded while they are packed.
#include <algorithm>

#include "core/host_vector.h"
#include "kernels/cpu/panels.h"

namespace emblem::cpu {
namespace {

const TileKernel* base = nullptr;

void round_to_bf16(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = Bf16::from(values[i]).to_float();
}

void pack_rounded(const Lines& lines, int64_t width, std::byte* to) {
  pack_floats(lines, width, to);
  round_to_bf16(reinterpret_cast<float*>(to),
                (lines.count + width - 1) / width * width * lines.inner);
}

void multiply_few(const float* x, int64_t x_stride, int64_t rows, const std::byte* panels,
                  int64_t panel_bytes, int64_t inner, int64_t cols, bool add, float* c,
                  int64_t stride) {
  static thread_local HostVector<float> rounded;
  rounded.resize(static_cast<size_t>(rows * inner));
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(x + r * x_stride, inner, rounded.data() + r * inner);
  round_to_bf16(rounded.data(), rows * inner);
  base->multiply_few(rounded.data(), inner, rows, panels, panel_bytes, inner, cols, add, c, stride);
}

}  // namespace

const TileKernel& rounding_tiles(const TileKernel& fp32) {
  static const TileKernel kernel = [&] {
    base = &fp32;
    TileKernel rounding = fp32;
    rounding.name = "rounding";
    rounding.type = DType::kBf16;
    rounding.pack = pack_rounded;
    rounding.multiply_few = multiply_few;
    return rounding;
  }();
  return kernel;
}

}  // namespace emblem::cpu
