// core/math/finite.h - whether numbers are neither NaN nor infinite.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace emblem {

inline bool are_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;  // all its bits are set in NaN and infinities alone
  uint32_t bad = 0;
  for (const float value : values)
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(value) & kExponent) == kExponent);
  return bad == 0;
}

}  // namespace emblem
