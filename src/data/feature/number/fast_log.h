// data/feature/number/fast_log.h - natural logarithms as plain arithmetic, so that loops over them
// become vector code.
#pragma once

#include <cstdint>
#include <cstring>

namespace emblem {
namespace detail {

// log(2^exponent * (1 + f)) for f in [sqrt(1/2) - 1, sqrt(2) - 1].
//
// log(1 + f) = f - f^2/2 + f^3 p(f), with the polynomial p of degree 7 whose largest relative error
// there is least: 6e-9, a tenth of half a unit in the last place. It needs no division, and adds up
// in pairs, which do not wait for each other. The large part f is exact.
inline float log_of_parts(float f, float exponent) {
  const float square = f * f;
  const float p = (0.333333313f - 0.250008225f * f) +
                  square * ((0.200012267f - 0.166233554f * f) +
                            square * ((0.142017707f - 0.131602183f * f) +
                                      square * (0.12761502f - 0.0763431042f * f)));
  constexpr float kLn2High = 0.693145751953125f;  // few bits: exact when multiplied by an exponent
  constexpr float kLn2Low = 1.42860682030941723212e-6f;
  return exponent * kLn2High - ((0.5f * square - (f * square * p + exponent * kLn2Low)) - f);
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
