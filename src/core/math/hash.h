// core/math/hash.h - the hash functions of emblem. Their results are part of file formats: never
// change them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/device/host_device.h"

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
// from it. Text is added in words of 8 bytes, then the bytes that are left.
class FgHash {
 public:
  explicit FgHash(size_t bytes) : hash_(0xc70f6907ull ^ (bytes * kMultiplier)) {}
  void add_word(uint64_t word) {
    word *= kMultiplier;
    word ^= word >> 47;
    hash_ = (hash_ ^ (word * kMultiplier)) * kMultiplier;
  }
  void add_rest(uint64_t bytes) { hash_ = (hash_ ^ bytes) * kMultiplier; }
  uint64_t result() const {
    const uint64_t hash = (hash_ ^ (hash_ >> 47)) * kMultiplier;
    return hash ^ (hash >> 47);
  }

 private:
  static constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995ull;
  uint64_t hash_;
};

// 1 to 7 bytes, the first one lowest. Reads that may overlap instead of a copy of any size.
inline uint64_t rest_of_word(const char* data, size_t bytes) {
  if (bytes >= 4) {
    uint32_t first, last;
    std::memcpy(&first, data, 4);
    std::memcpy(&last, data + bytes - 4, 4);
    return first | uint64_t{last} << 8 * (bytes - 4);
  }
  const auto at = [&](size_t i) { return uint64_t{static_cast<uint8_t>(data[i])} << 8 * i; };
  return at(0) | at(bytes / 2) | at(bytes - 1);
}

inline uint64_t fg_hash(std::string_view text) {
  FgHash hash(text.size());
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash.add_word(word);
  }
  if (left != 0) hash.add_rest(rest_of_word(data, left));
  return hash.result();
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
  if (left != 0) hash = mix64(hash ^ rest_of_word(data, left)) + 0x9e3779b97f4a7c15ull;
  return mix64(hash);
}

}  // namespace emblem
