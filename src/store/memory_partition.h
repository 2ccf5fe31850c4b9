// store/memory_partition.h - one part of a table in memory: an open-addressing index over rows that
// are never changed once they can be seen. An update writes a new row and swings the index to it.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/math/random.h"
#include "core/memory/prefetch.h"
#include "core/memory/row_format.h"
#include "store/overflow.h"
#include "store/read_gate.h"

namespace emblem {

// Memory for random reads: in huge pages where it is large, so that the TLB is missed less.
using LargeArray = std::unique_ptr<void, void (*)(void*)>;
LargeArray allocate_large(size_t bytes);  // not initialized; throws kOutOfMemory

// Rows in slabs of doubling size that never move.
class RowSlabs {
 public:
  explicit RowSlabs(int64_t row_bytes) : stride_(row_bytes) {}

  std::byte* at(uint32_t row) const {
    const uint64_t number = uint64_t{row} + kFirst;
    const int slab = std::bit_width(number / kFirst) - 1;
    return slabs_[slab] + (number - (kFirst << slab)) * stride_;
  }
  void make_room_for(uint32_t row);

 private:
  static constexpr uint64_t kFirst = 256;  // rows of the first slab
  int64_t stride_;                         // bytes from row to row
  std::byte* slabs_[26] = {};
  std::vector<LargeArray> memory_;
};

class MemoryPartition {
 public:
  MemoryPartition(ReadGate& gate, const RowFormat& format, const Overflow& overflow, uint64_t seed);

  // ---- readers, inside the gate ----
  void prefetch(uint64_t hash) const {
    const SlotArray* index = index_.load(std::memory_order_acquire);
    emblem::prefetch(&index->slots[hash & index->mask]);
  }
  // The row of a key, in the format, or null; valid until the reader leaves the gate.
  const std::byte* find(uint64_t hash, int64_t key) const {
    const SlotArray* index = index_.load(std::memory_order_acquire);
    for (uint64_t at = hash & index->mask;; at = (at + 1) & index->mask) {
      const Slot& slot = index->slots[at];
      const uint32_t row = slot.row.load(std::memory_order_acquire);
      if (row == kEmpty) return nullptr;
      if (slot.key.load(std::memory_order_relaxed) != key) continue;
      if (row == kErased) return nullptr;
      if (marks_use_) mark_use(slot);
      return rows_.at(row);
    }
  }

  // ---- any thread ----
  int64_t size() const { return size_.load(std::memory_order_relaxed); }
  uint64_t evicted() const { return evicted_.load(std::memory_order_relaxed); }
  std::vector<int64_t> keys() const;

  // ---- writers, outside the gate; they wait for one another ----
  // The keys and rows with these numbers, in this order.
  void insert(std::span<const uint32_t> numbers, const int64_t* keys, const float* rows);
  void erase(std::span<const uint32_t> numbers, const int64_t* keys);
  void clear();

 private:
  static constexpr uint32_t kEmpty = 0xffffffffu, kErased = 0xfffffffeu;
  struct Slot {
    std::atomic<int64_t> key{0};  // never changes once row is not kEmpty
    std::atomic<uint32_t> row{kEmpty};
    mutable std::atomic<uint32_t> use{0};  // how often (kEvictLeastUsed) or when (kEvictOldest)
  };
  struct SlotArray {
    explicit SlotArray(uint64_t slot_count);
    uint64_t mask;
    LargeArray memory;
    Slot* slots;
  };

  void mark_use(const Slot& slot) const;
  Slot& slot_of(int64_t key) const;  // where it is or belongs
  void put(int64_t key, const float* row);
  uint32_t take_row();
  void hide(Slot& slot);
  void make_room_in_index();
  void make_room_to_retire();
  void replace_index(std::unique_ptr<SlotArray> index);
  void evict();
  std::vector<uint64_t> live_slots() const;

  ReadGate& gate_;
  const RowFormat format_;
  const Overflow overflow_;
  const bool marks_use_;
  RowSlabs rows_;
  std::atomic<SlotArray*> index_;
  std::atomic<int64_t> size_{0};
  std::atomic<uint64_t> evicted_{0};
  std::atomic<uint32_t> now_{0};  // counts insertions, for kEvictOldest

  mutable std::mutex writer_;
  std::unique_ptr<SlotArray> owned_index_;
  uint64_t slots_in_use_ = 0;      // erased ones as well
  uint32_t next_row_ = 0;          // never used so far
  std::vector<uint32_t> free_;     // rows that no reader can see
  std::vector<uint32_t> retired_;  // rows that readers may still be reading
  Random random_;
};

}  // namespace emblem
