// data/fast_log.h - natural logarithms as plain arithmetic, so that loops over them become vector
// code.
#pragma once

#include <cstdint>
#include <cstring>

namespace emblem {
namespace detail {

// log(2^exponent * (1 + f)) for f in [sqrt(1/2) - 1, sqrt(2) - 1].
//
// With s = f / (2 + f), log(1 + f) = 2 (s + s^3/3 + s^5/5 + ...); four terms behind the first are
// below half a unit in the last place for |s| <= 0.172. Written as f - (f^2/2 - s (f^2/2 + rest))
// so that the large part f is exact.
inline float log_of_parts(float f, float exponent) {
  const float s = f / (2.0f + f);
  const float z = s * s;
  const float rest = z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));
  const float half_square = 0.5f * f * f;
  constexpr float kLn2High = 0.693145751953125f;  // few bits: exact when multiplied by an exponent
  constexpr float kLn2Low = 1.42860682030941723212e-6f;
  return exponent * kLn2High -
         ((half_square - (s * (half_square + rest) + exponent * kLn2Low)) - f);
}

struct FloatParts {
  float mantissa;  // in [sqrt(1/2), sqrt(2))
  float exponent;
};

inline FloatParts split_float(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  constexpr uint32_t kSqrtHalf = 0x3f3504f3u;
  const uint32_t shifted = bits - kSqrtHalf;
  const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
  const uint32_t mantissa_bits = (shifted & 0x007fffffu) + kSqrtHalf;
  FloatParts parts;
  std::memcpy(&parts.mantissa, &mantissa_bits, 4);
  parts.exponent = static_cast<float>(exponent);
  return parts;
}

}  // namespace detail

// log(x) within 2 units in the last place. x must be positive, normal and finite.
inline float fast_log(float x) {
  const detail::FloatParts parts = detail::split_float(x);
  return detail::log_of_parts(parts.mantissa - 1.0f, parts.exponent);
}

// log(1 + x) within 3 units in the last place, also near 0. x must be finite and not negative.
inline float fast_log1p(float x) {
  const float sum = 1.0f + x;
  const float lost = x - (sum - 1.0f);  // what the rounding of the sum took from x
  return fast_log(sum) + lost / sum;
}

}  // namespace emblem
