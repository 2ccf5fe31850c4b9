// embedding/rounding.h - how updated weights are rounded to 16 bits.
//
// To nearest, an update below half a unit in the last place is lost, however often it is repeated.
// Stochastic rounding goes up with the probability of the remainder, so that small updates add up.
// The random number is a function of (step, position in the row, the weight itself): no state is
// kept, and results depend neither on the order of updates nor on where a row is stored.
#pragma once

#include <cstdint>

#include "core/device/host_device.h"
#include "core/math/half.h"
#include "core/math/hash.h"

namespace emblem {

// A step's part of the random numbers. This one means: round to nearest.
inline constexpr uint32_t kRoundToNearest = 0;

// Never kRoundToNearest.
inline uint32_t rounding_draw(int64_t step) {
  return static_cast<uint32_t>(mix64(static_cast<uint64_t>(step)) >> 32) | 1u;
}

namespace detail {

EMBLEM_HD inline uint32_t rounding_bits(float value, uint32_t draw, int64_t position) {
  uint32_t x = float_bits(value) * 0x9e3779b1u ^ draw;
  x += static_cast<uint32_t>(position) * 0x85ebca77u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

EMBLEM_HD inline float round_mantissa(float value, uint32_t random, int dropped) {
  const uint32_t mask = (1u << dropped) - 1u;
  return bits_float((float_bits(value) + (random & mask)) & ~mask);
}

}  // namespace detail

// One of the two values of type W next to `value`, as a float; `value` itself where W has it, where
// it is not finite and where it is too large for W.
template <class W>
EMBLEM_HD inline float round_stochastically(float value, uint32_t draw, int64_t position);

template <>
EMBLEM_HD inline float round_stochastically<float>(float value, uint32_t, int64_t) {
  return value;
}

template <>
EMBLEM_HD inline float round_stochastically<Bf16>(float value, uint32_t draw, int64_t position) {
  if ((detail::float_bits(value) & 0x7fffffffu) >= 0x7f7f0000u) return value;
  return detail::round_mantissa(value, detail::rounding_bits(value, draw, position), 16);
}

template <>
EMBLEM_HD inline float round_stochastically<F16>(float value, uint32_t draw, int64_t position) {
  const uint32_t magnitude = detail::float_bits(value) & 0x7fffffffu;
  if (magnitude >= 0x477fe000u) return value;  // 65504, the largest
  const uint32_t random = detail::rounding_bits(value, draw, position);
  if (magnitude >= 0x38800000u) return detail::round_mantissa(value, random, 13);
  // Subnormal in 16 bits: multiples of 2^-24.
  const float scaled = detail::bits_float(magnitude) * 16777216.0f;
  const auto down = static_cast<uint32_t>(scaled);
  const float remainder = scaled - static_cast<float>(down);
  const bool up = remainder > static_cast<float>(random >> 8) * (1.0f / 16777216.0f);
  const float rounded = static_cast<float>(down + (up ? 1u : 0u)) * (1.0f / 16777216.0f);
  return value < 0.0f ? -rounded : rounded;
}

}  // namespace emblem
