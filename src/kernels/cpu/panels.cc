#include "kernels/cpu/panels.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem::cpu {
namespace {

template <int kWidth>
void pack_panel(const Lines& from, int64_t first, float* to) {
  const float* data = from.data + first * from.step;
  const int64_t count = std::min<int64_t>(kWidth, from.count - first);
  int64_t k = 0;
  if (count == kWidth && from.inner_step == 1) {
    for (; k + 4 <= from.inner; k += 4) {
      int i = 0;
      for (; i + 4 <= kWidth; i += 4) {
        const FourByFour block = load_transposed(data + i * from.step + k, from.step);
        for (int j = 0; j < 4; ++j)
          __builtin_memcpy(to + (k + j) * kWidth + i, &block.rows[j], sizeof(Four));
      }
      for (; i < kWidth; ++i)
        for (int j = 0; j < 4; ++j) to[(k + j) * kWidth + i] = data[i * from.step + k + j];
    }
  } else if (count == kWidth) {
    for (; k < from.inner; ++k)
      __builtin_memcpy(to + k * kWidth, data + k * from.inner_step, kWidth * sizeof(float));
  }
  for (; k < from.inner; ++k) {
    for (int64_t i = 0; i < kWidth; ++i)
      to[k * kWidth + i] = i < count ? data[i * from.step + k * from.inner_step] : 0.0f;
  }
}

// Calls body with the width as a constant.
template <class Body>
void with_width(int64_t width, Body body) {
  switch (width) {
    case 4:
      return body.template operator()<4>();
    case 6:
      return body.template operator()<6>();
    case 8:
      return body.template operator()<8>();
    case 12:
      return body.template operator()<12>();
    case 16:
      return body.template operator()<16>();
    case 32:
      return body.template operator()<32>();
    default:
      throw Error(ErrorCode::kInternal, "a panel of an unknown width");
  }
}

}  // namespace

void pack_floats(const Lines& lines, int64_t width, std::byte* to) {
  with_width(width, [&]<int kWidth>() {
    float* panel = reinterpret_cast<float*>(to);
    for (int64_t line = 0; line < lines.count; line += kWidth, panel += kWidth * lines.inner)
      pack_panel<kWidth>(lines, line, panel);
  });
}

}  // namespace emblem::cpu
