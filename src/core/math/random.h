// core/math/random.h - counter-based random numbers: a value depends on (seed, stream, index)
// alone, never on the order of calls, the number of threads or the device.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/hash.h"

namespace emblem {

EMBLEM_HD inline uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mix64(mix64(mix64(seed + 0x9e3779b97f4a7c15ull) ^ stream) + index * 0x9e3779b97f4a7c15ull);
}

// A number in [0, 1), with 24 random bits: exact in float on every device.
EMBLEM_HD inline float random_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<float>(random_bits(seed, stream, index) >> 40) * (1.0f / 16777216.0f);
}

// Standard normal (Box-Muller on one 64-bit draw).
EMBLEM_HD inline float random_normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t bits = random_bits(seed, stream, index);
  const float u = (static_cast<float>(bits >> 40) + 1.0f) * (1.0f / 16777216.0f);  // in (0, 1]
  const float v = static_cast<float>((bits >> 8) & 0xffffffu) * (1.0f / 16777216.0f);
  return sqrtf(-2.0f * logf(u)) * cosf(6.283185307179586f * v);
}

// A sequence drawn from one (seed, stream); its whole state is `index`.
struct Random {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t index = 0;

  uint64_t bits() { return random_bits(seed, stream, index++); }
  float uniform() { return random_uniform(seed, stream, index++); }
  float normal() { return random_normal(seed, stream, index++); }
  // Uniform in [0, bound), bound > 0, by multiplication instead of a division.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bits()) * bound) >> 64);
  }
};

}  // namespace emblem
