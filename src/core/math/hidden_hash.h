// core/math/hidden_hash.h - hashes of keys that clients choose. Without the seed, which no one
// outside of the process knows, they cannot choose keys that collide: with a known hash function a
// request of a megabyte can make a hash table as slow as a list.
//
// Only for tables whose order of entries does not show in results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/math/hash.h"

namespace emblem {

// Drawn once in a process. Thread-safe.
uint64_t hidden_seed();

inline uint64_t hidden_hash(int64_t key, uint64_t seed) {
  return mix64(static_cast<uint64_t>(key) ^ seed);
}
uint64_t hidden_hash(std::string_view text, uint64_t seed);

// For the standard library's containers of text.
struct HiddenHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return hidden_hash(text, hidden_seed()); }
};

}  // namespace emblem
