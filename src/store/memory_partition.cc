#include "store/memory_partition.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/memory/allocation_fault.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr uint64_t kFirstSlots = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

LargeArray allocate_large(size_t bytes) {
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : 64;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  LargeArray memory(allocation_must_fail() ? nullptr : std::aligned_alloc(alignment, bytes),
                    std::free);
  if (memory == nullptr) {
    throw Error(ErrorCode::kOutOfMemory, cat("memory store: no memory for ", bytes, " more bytes"));
  }
  if (alignment == kHugePage) madvise(memory.get(), bytes, MADV_HUGEPAGE);
  return memory;
}

void RowSlabs::make_room_for(uint32_t row) {
  const int slab = std::bit_width((uint64_t{row} + kFirst) / kFirst) - 1;
  if (slabs_[slab] != nullptr) return;
  memory_.push_back(allocate_large((kFirst << slab) * static_cast<size_t>(stride_)));
  slabs_[slab] = static_cast<std::byte*>(memory_.back().get());
}

MemoryPartition::SlotArray::SlotArray(uint64_t slot_count)
    : mask(slot_count - 1),
      memory(allocate_large(slot_count * sizeof(Slot))),
      slots(static_cast<Slot*>(memory.get())) {
  std::uninitialized_default_construct_n(slots, slot_count);
}

MemoryPartition::MemoryPartition(ReadGate& gate, const RowFormat& format, const Overflow& overflow,
                                 uint64_t seed)
    : gate_(gate),
      format_(format),
      overflow_(overflow),
      marks_use_(overflow.limited() && overflow.policy != OverflowPolicy::kEvictRandom),
      rows_(format.bytes()),
      owned_index_(std::make_unique<SlotArray>(kFirstSlots)),
      random_{.seed = seed} {
  index_ = owned_index_.get();
}

void MemoryPartition::mark_use(const Slot& slot) const {
  const uint32_t use = slot.use.load(std::memory_order_relaxed);
  if (overflow_.policy == OverflowPolicy::kEvictLeastUsed) {
    if (use != UINT32_MAX) slot.use.store(use + 1, std::memory_order_relaxed);
  } else if (const uint32_t now = now_.load(std::memory_order_relaxed); use != now) {
    slot.use.store(now, std::memory_order_relaxed);
  }
}

std::vector<int64_t> MemoryPartition::keys() const {
  std::lock_guard lock(writer_);
  std::vector<int64_t> keys;
  for (const uint64_t at : live_slots()) {
    keys.push_back(owned_index_->slots[at].key.load(std::memory_order_relaxed));
  }
  return keys;
}

std::vector<uint64_t> MemoryPartition::live_slots() const {
  std::vector<uint64_t> live;
  live.reserve(static_cast<size_t>(size()));
  for (uint64_t at = 0; at <= owned_index_->mask; ++at) {
    if (owned_index_->slots[at].row.load(std::memory_order_relaxed) < kErased) live.push_back(at);
  }
  return live;
}

void MemoryPartition::insert(std::span<const uint32_t> numbers, const int64_t* keys,
                             const float* rows) {
  std::lock_guard lock(writer_);
  now_.fetch_add(1, std::memory_order_relaxed);
  for (const uint32_t i : numbers) put(keys[i], rows + i * format_.dim);
}

void MemoryPartition::erase(std::span<const uint32_t> numbers, const int64_t* keys) {
  std::lock_guard lock(writer_);
  for (const uint32_t i : numbers) {
    Slot& slot = slot_of(keys[i]);
    if (slot.row.load(std::memory_order_relaxed) < kErased) hide(slot);
  }
}

void MemoryPartition::clear() {
  std::lock_guard lock(writer_);
  replace_index(std::make_unique<SlotArray>(kFirstSlots));  // no reader sees rows any more
  slots_in_use_ = 0;
  size_ = 0;
  retired_.clear();
  free_.clear();
  next_row_ = 0;
}

MemoryPartition::Slot& MemoryPartition::slot_of(int64_t key) const {
  const SlotArray& index = *owned_index_;
  for (uint64_t at = mix64(static_cast<uint64_t>(key)) & index.mask;; at = (at + 1) & index.mask) {
    Slot& slot = index.slots[at];
    if (slot.row.load(std::memory_order_relaxed) == kEmpty ||
        slot.key.load(std::memory_order_relaxed) == key) {
      return slot;
    }
  }
}

void MemoryPartition::put(int64_t key, const float* row) {
  make_room_in_index();
  make_room_to_retire();
  const uint32_t number = take_row();
  format_.write(row, rows_.at(number));
  Slot& slot = slot_of(key);
  const uint32_t old = slot.row.load(std::memory_order_relaxed);
  if (old == kEmpty) {
    slot.key.store(key, std::memory_order_relaxed);
    ++slots_in_use_;
  }
  if (marks_use_ && old >= kErased) slot.use.store(0, std::memory_order_relaxed);
  if (marks_use_) mark_use(slot);
  slot.row.store(number, std::memory_order_release);
  if (old < kErased) {
    retired_.push_back(old);
    return;
  }
  size_.fetch_add(1, std::memory_order_relaxed);
  if (static_cast<uint64_t>(size()) > overflow_.margin) evict();
}

uint32_t MemoryPartition::take_row() {
  // Waiting once for many rows costs little a row; more would hold memory back for nothing.
  const size_t enough = std::max<size_t>(1024, static_cast<size_t>(size()) / 16);
  if (free_.empty() && retired_.size() >= enough) {
    gate_.wait_for_readers();
    free_.swap(retired_);
  }
  if (!free_.empty()) {
    const uint32_t row = free_.back();
    free_.pop_back();
    return row;
  }
  if (next_row_ == kErased) {
    throw Error(ErrorCode::kOutOfMemory,
                "memory store: a partition is full (2^32 rows): use more partitions");
  }
  rows_.make_room_for(next_row_);
  return next_row_++;
}

// Then one more row can be retired without memory.
void MemoryPartition::make_room_to_retire() {
  if (retired_.size() == retired_.capacity()) retired_.reserve(2 * retired_.size() + 1);
}

void MemoryPartition::hide(Slot& slot) {
  make_room_to_retire();
  retired_.push_back(slot.row.exchange(kErased, std::memory_order_acq_rel));
  size_.fetch_sub(1, std::memory_order_relaxed);
}

void MemoryPartition::make_room_in_index() {
  const uint64_t slots = owned_index_->mask + 1;
  if ((slots_in_use_ + 1) * 8 <= slots * 5) return;
  const auto rows = static_cast<uint64_t>(size());
  auto larger =
      std::make_unique<SlotArray>(std::max(kFirstSlots, std::bit_ceil((rows + 1) * 5 / 2)));
  for (const uint64_t from : live_slots()) {
    const Slot& old = owned_index_->slots[from];
    const int64_t key = old.key.load(std::memory_order_relaxed);
    uint64_t at = mix64(static_cast<uint64_t>(key)) & larger->mask;
    while (larger->slots[at].row.load(std::memory_order_relaxed) != kEmpty) {
      at = (at + 1) & larger->mask;
    }
    Slot& slot = larger->slots[at];
    slot.key.store(key, std::memory_order_relaxed);
    slot.use.store(old.use.load(std::memory_order_relaxed), std::memory_order_relaxed);
    slot.row.store(old.row.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  slots_in_use_ = rows;
  replace_index(std::move(larger));
}

void MemoryPartition::replace_index(std::unique_ptr<SlotArray> index) {
  index_.store(index.get(), std::memory_order_release);
  gate_.wait_for_readers();
  owned_index_ = std::move(index);
}

void MemoryPartition::evict() {
  const auto keep = static_cast<uint64_t>(static_cast<double>(overflow_.margin) * overflow_.target);
  std::vector<uint64_t> live = live_slots();
  const uint64_t leave = std::max<uint64_t>(1, live.size() - std::min<uint64_t>(keep, live.size()));
  if (overflow_.policy == OverflowPolicy::kEvictRandom) {
    for (uint64_t i = 0; i < leave; ++i)
      std::swap(live[i], live[i + random_.below(live.size() - i)]);
  } else {
    // Readers continue to count, so the order is made of what is seen once.
    std::vector<std::pair<uint32_t, uint64_t>> by_use;
    for (const uint64_t at : live) {
      by_use.emplace_back(owned_index_->slots[at].use.load(std::memory_order_relaxed), at);
    }
    std::nth_element(by_use.begin(), by_use.begin() + static_cast<int64_t>(leave - 1),
                     by_use.end());
    for (uint64_t i = 0; i < leave; ++i) live[i] = by_use[i].second;
  }
  for (uint64_t i = 0; i < leave; ++i) hide(owned_index_->slots[live[i]]);
  evicted_.fetch_add(leave, std::memory_order_relaxed);
}

}  // namespace emblem
