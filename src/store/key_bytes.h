// store/key_bytes.h - keys as HPS writes them into databases and messages: 8 bytes, or 4 where its
// configuration says "supportlonglong": false, little-endian.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "emblem/error.h"

namespace emblem {

static_assert(std::endian::native == std::endian::little, "keys are written as memory holds them");

// The hash by which HPS chooses a key's partition (in Redis) or key group (in Kafka): rows must be
// where its users have them.
inline uint64_t hps_partition_hash(int64_t key) {
  auto x = static_cast<uint64_t>(key);
  x ^= std::rotr(x, 25) ^ std::rotr(x, 50);
  x *= 0xa24baed4963ee407ull;
  x ^= std::rotr(x, 24) ^ std::rotr(x, 49);
  x *= 0x9fb21c651e98df25ull;
  return x ^ (x >> 28);
}

struct KeyBytes {
  size_t width = 8;  // or 4

  bool fits(int64_t key) const { return width == 8 || (key >= 0 && key <= int64_t{UINT32_MAX}); }
  // Shows the bytes of `key` in place.
  std::string_view bytes(const int64_t& key) const {
    return {reinterpret_cast<const char*>(&key), width};
  }
  int64_t key(const char* bytes) const {
    int64_t key = 0;
    std::memcpy(&key, bytes, width);
    return key;
  }
  void require(std::string_view table, int64_t key) const {
    EMBLEM_REQUIRE(fits(key), "table ", table, ": key ", key,
                   " does not fit into 4 bytes: set \"supportlonglong\": true");
  }
};

}  // namespace emblem
