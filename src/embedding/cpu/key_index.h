// embedding/cpu/key_index.h - a hash map from 64-bit keys to 32-bit values for hundreds of millions
// of keys.
//
// Slots are in groups of 16 with one byte of hash each; a probe compares 16 bytes at once. A key is
// in the first group from its home that had a free slot: every group before is full. Erasing moves
// later keys back, so that there are no tombstones. Growth allocates a second, larger array and
// moves a few groups with every insertion, so that no single call takes long.
//
// Every key is legal; the value kNone is not. Thread-compatible: const methods may run
// concurrently.
#pragma once

#include <cstdint>
#include <span>

#include "core/math/hash.h"
#include "embedding/cpu/pages.h"

namespace emblem {

inline constexpr int kGroupSlots = 16;
inline constexpr uint8_t kEmptyTag = 0;    // so that fresh zero pages are an empty index
inline constexpr uint8_t kErasedTag = 1;   // only in an array that is being moved elsewhere
inline constexpr uint8_t kUsedTag = 0x80;  // with 7 bits of the hash

// 12 bytes instead of 16: a key as two halves needs no alignment of 8.
struct IndexSlot {
  uint32_t key_low, key_high, value;
  int64_t key() const {
    return static_cast<int64_t>(static_cast<uint64_t>(key_high) << 32 | key_low);
  }
  void set(int64_t key, uint32_t new_value) {
    key_low = static_cast<uint32_t>(static_cast<uint64_t>(key));
    key_high = static_cast<uint32_t>(static_cast<uint64_t>(key) >> 32);
    value = new_value;
  }
};

// An array of groups, as embedding/cpu/index_probe.h searches it.
struct IndexRef {
  uint8_t* tags = nullptr;     // [groups * 16]
  IndexSlot* slots = nullptr;  // [groups * 16]
  uint64_t groups = 0;

  static uint64_t hash(int64_t key) {
    return mix64(static_cast<uint64_t>(key) + 0x9e3779b97f4a7c15ull);
  }
  static uint8_t tag(uint64_t hash) { return static_cast<uint8_t>(kUsedTag | (hash & 0x7f)); }
  // The high bits choose the group, so that any number of groups will do.
  uint64_t home(uint64_t hash) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * groups) >> 64);
  }
  uint64_t next(uint64_t group) const { return group + 1 == groups ? 0 : group + 1; }
};

class KeyIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffffu;

  explicit KeyIndex(int64_t expected_keys = 0);

  int64_t size() const { return now_.used + old_.used; }
  int64_t bytes() const { return static_cast<int64_t>(now_.memory.bytes() + old_.memory.bytes()); }

  uint32_t find(int64_t key) const;  // kNone when absent
  // The same for many keys, with the cache misses of many keys in flight at once.
  void find(std::span<const int64_t> keys, std::span<uint32_t> values) const;
  // The value of the key, which is `value` if it had none. Where there is no memory for it, throws
  // and changes nothing.
  uint32_t insert(int64_t key, uint32_t value);
  void make_room();  // for one more key, whose insertion then needs no memory
  void assign(int64_t key, uint32_t value);
  bool erase(int64_t key);
  void clear();   // and frees the memory
  void forget();  // removes all keys, keeps the memory

  // Prefetches the memory that an insert of `key` reads.
  void prefetch(int64_t key) const;

  // Calls visit(key, value) for all, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slots* slots : {&old_, &now_}) {
      for (uint64_t i = 0; i < slots->ref.groups * kGroupSlots; ++i) {
        if (slots->ref.tags[i] >= kUsedTag)
          visit(slots->ref.slots[i].key(), slots->ref.slots[i].value);
      }
    }
  }

  bool growing() const { return old_.ref.groups != 0; }
  // Continues growth: moves this many groups of the old array. Insertions move some too.
  void move_groups(uint64_t groups);
  uint64_t moved_groups() const { return moved_groups_; }  // in total: the cost of growth so far
  // The array of keys, without those that growth has not moved yet.
  IndexRef ref() const { return now_.ref; }

 private:
  struct Slots {
    Slots() = default;
    explicit Slots(uint64_t groups);
    IndexRef ref;
    int64_t used = 0;
    Pages memory;
  };

  void grow();
  static void put(Slots& slots, int64_t key, uint32_t value);
  static void close_gap(Slots& slots, uint64_t slot);

  Slots now_;
  Slots old_;                // being emptied into now_; erased slots in it are marked, not closed
  uint64_t next_group_ = 0;  // group of old_ to be moved next
  uint64_t moved_groups_ = 0;
};

}  // namespace emblem
