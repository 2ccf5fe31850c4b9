// core/math/sigmoid.h - e^x and the sigmoid in fp32, the same on every device.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/device/host_device.h"

namespace emblem {

// e^x to about 2 units in the last place over the range of float, without branches or calls, so
// that loops over it are vectorized.
EMBLEM_HD inline float exp_inline(float x) {
  const float bounded = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);  // NaN stays NaN
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  memcpy(&bits, &shifted, 4);
  bits = static_cast<int32_t>((static_cast<uint32_t>(bits) << 23) + 0x3f800000u);  // 2^n
  float power;
  memcpy(&power, &bits, 4);
  return p * power;
}

EMBLEM_HD inline float sigmoid_inline(float x) {
  // Computed from the negative side, where e^x cannot overflow.
  const float e = exp_inline(x < 0.0f ? x : -x);
  const float small = e / (1.0f + e);
  return x < 0.0f ? small : 1.0f - small;
}

}  // namespace emblem
