// core/hash.h - the hash functions of emblem. Their results are part of file formats: never change
// them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/host_device.h"

namespace emblem {

// A bijection on 64-bit words that spreads every input bit over all output bits.
EMBLEM_HD inline uint64_t mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// MurmurHash64A with the seed that libstdc++ uses: TorchEasyRec's feature generation takes buckets
// from it.
inline uint64_t fg_hash(std::string_view text) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995ull;
  uint64_t hash = 0xc70f6907ull ^ (text.size() * kMultiplier);
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    word *= kMultiplier;
    word ^= word >> 47;
    hash = (hash ^ (word * kMultiplier)) * kMultiplier;
  }
  if (left != 0) {
    uint64_t word = 0;
    std::memcpy(&word, data, left);
    hash = (hash ^ word) * kMultiplier;
  }
  hash = (hash ^ (hash >> 47)) * kMultiplier;
  return hash ^ (hash >> 47);
}

// A 64-bit hash of text: seeds by names, and keys of text in models of semantics_version 1.
inline uint64_t hash_string(std::string_view text) {
  uint64_t hash = 0x9e3779b97f4a7c15ull ^ (text.size() * 0xff51afd7ed558ccdull);
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = mix64(hash ^ word) + 0x9e3779b97f4a7c15ull;
  }
  if (left != 0) {
    uint64_t word = 0;
    std::memcpy(&word, data, left);
    hash = mix64(hash ^ word) + 0x9e3779b97f4a7c15ull;
  }
  return mix64(hash);
}

}  // namespace emblem
