// embedding/cpu/key_index_ref.h - the arrays of an index as kernels see them: trivially copyable,
// for one device.
#pragma once

#include <cstdint>

#include "core/device/host_device.h"
#include "core/math/hash.h"

namespace emblem {

inline constexpr int kGroupSlots = 16;
inline constexpr uint8_t kEmptyTag = 0;    // so that fresh zero pages are an empty index
inline constexpr uint8_t kErasedTag = 1;   // only in an array that is being moved elsewhere
inline constexpr uint8_t kUsedTag = 0x80;  // with 7 bits of the hash

// 12 bytes instead of 16: a key as two halves needs no alignment of 8.
struct IndexSlot {
  uint32_t key_low, key_high, value;
  EMBLEM_HD int64_t key() const {
    return static_cast<int64_t>(static_cast<uint64_t>(key_high) << 32 | key_low);
  }
  EMBLEM_HD void set(int64_t key, uint32_t new_value) {
    key_low = static_cast<uint32_t>(static_cast<uint64_t>(key));
    key_high = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
    value = new_value;
  }
};

struct IndexRef {
  uint8_t* tags = nullptr;     // [groups * 16]
  IndexSlot* slots = nullptr;  // [groups * 16]
  uint64_t groups = 0;

  EMBLEM_HD static uint64_t hash(int64_t key) {
    return mix64(static_cast<uint64_t>(key) + 0x9e3779b97f4a7c15ull);
  }
  EMBLEM_HD static uint8_t tag(uint64_t hash) {
    return static_cast<uint8_t>(kUsedTag | (hash & 0x7f));
  }
  // The high bits choose the group, so that any number of groups will do.
  EMBLEM_HD uint64_t home(uint64_t hash) const {
#ifdef __CUDA_ARCH__
    return __umul64hi(hash, groups);
#else
    return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * groups) >> 64);
#endif
  }
  EMBLEM_HD uint64_t next(uint64_t group) const { return group + 1 == groups ? 0 : group + 1; }
};

}  // namespace emblem
