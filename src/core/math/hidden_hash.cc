#include "core/math/hidden_hash.h"

#include <cstring>
#include <string>

#include "core/math/sha256.h"

namespace emblem {

uint64_t hidden_seed() {
  static const uint64_t seed = [] {
    uint64_t drawn;
    std::memcpy(&drawn, random_bytes(sizeof drawn).data(), sizeof drawn);
    return drawn;
  }();
  return seed;
}

uint64_t hidden_hash(std::string_view text, uint64_t seed) {
  uint64_t hash = mix64(seed ^ text.size());
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = mix64(hash ^ word) + seed;
  }
  return left == 0 ? hash : mix64(hash ^ rest_of_word(data, left)) + seed;
}

}  // namespace emblem
