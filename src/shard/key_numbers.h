// shard/key_numbers.h - the distinct keys of some lists, numbered by first occurrence.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/hash.h"
#include "core/host_vector.h"
#include "embedding/lookup.h"

namespace emblem {

// Memory for numbering keys. One for several tables stays in the cache.
using KeySlots = HostVector<uint32_t>;

// Memory that threads take turns with. Thread-safe.
class KeySlotsPool {
 public:
  // Calls body(slots).
  template <class Body>
  void lend(Body&& body) {
    KeySlots slots;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        slots = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    body(slots);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(slots));
  }

 private:
  std::mutex mutex_;
  std::vector<KeySlots> idle_;
};

// Reuses its memory from batch to batch. Used by one thread.
class KeyNumbers {
 public:
  // `rows`: keys are from 0 to rows - 1, or `refuse(key)` throws; 0: any.
  template <class Refuse>
  void number(std::span<const FeatureKeys* const> lists, int64_t rows, KeySlots& slots,
              Refuse&& refuse);
  void number(std::span<const FeatureKeys* const> lists, KeySlots& slots) {
    number(lists, 0, slots, [](int64_t) {});
  }

  // Of each key of a list: its number.
  std::span<const uint32_t> numbers(size_t list) const { return numbers_[list]; }
  // By number.
  std::span<const int64_t> keys() const { return keys_; }
  std::span<const int32_t> counts() const { return counts_; }  // occurrences in all lists
  int64_t size() const { return static_cast<int64_t>(keys_.size()); }

 private:
  static constexpr uint32_t kFree = ~uint32_t{0};

  // Begins with slots for `total` keys. Returns whether each possible key has one of its own.
  bool begin(std::span<const FeatureKeys* const> lists, int64_t rows, KeySlots& slots);
  template <class SlotOf>
  uint32_t number_list(const View<const int64_t>& keys, uint32_t* numbers, uint32_t next,
                       KeySlots& slots, SlotOf&& slot_of);

  std::vector<HostVector<uint32_t>> numbers_;  // per list
  HostVector<int64_t> keys_;
  HostVector<int32_t> counts_;
  int shift_ = 0;  // of hashes to slots
};

template <class Refuse>
void KeyNumbers::number(std::span<const FeatureKeys* const> lists, int64_t rows, KeySlots& slots,
                        Refuse&& refuse) {
  const bool direct = begin(lists, rows, slots);
  const auto end = static_cast<uint64_t>(rows);
  uint32_t next = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    const View<const int64_t>& keys = lists[i]->keys;
    if (direct) {
      next = number_list(keys, numbers_[i].data(), next, slots, [&](int64_t key) {
        if (static_cast<uint64_t>(key) >= end) refuse(key);
        return static_cast<size_t>(key);
      });
    } else {
      next = number_list(keys, numbers_[i].data(), next, slots, [shift = shift_](int64_t key) {
        return static_cast<size_t>(mix64(static_cast<uint64_t>(key)) >> shift);
      });
    }
  }
  keys_.resize(next);
  counts_.resize(next);
}

// Whether a key is new is hard to predict, so the usual cases have no branch for it.
template <class SlotOf>
uint32_t KeyNumbers::number_list(const View<const int64_t>& keys, uint32_t* numbers, uint32_t next,
                                 KeySlots& slots, SlotOf&& slot_of) {
  const size_t mask = slots.size() - 1;
  uint32_t* const numbered = slots.data();
  int64_t* const first_keys = keys_.data();
  int32_t* const counts = counts_.data();
  for (int64_t i = 0; i < keys.size(); ++i) {
    const int64_t key = keys.data[i];
    size_t slot = slot_of(key);
    first_keys[next] = key;
    counts[next] = 0;
    uint32_t number = std::min(numbered[slot], next);  // kFree: next
    while (first_keys[number] != key) [[unlikely]] {
        slot = (slot + 1) & mask;
        number = std::min(numbered[slot], next);
      }
    numbered[slot] = number;
    numbers[i] = number;
    ++counts[number];
    next += number == next;
  }
  return next;
}

}  // namespace emblem
