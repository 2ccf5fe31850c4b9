// shard/key_numbers.h - the distinct keys of some lists, numbered by first occurrence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/math/hash.h"
#include "core/memory/host_vector.h"
#include "embedding/lookup.h"

namespace emblem {

// Memory for numbering keys. One for several tables stays in the cache.
using KeySlots = HostVector<uint32_t>;

// Memory that threads take turns with. Thread-safe.
class KeySlotsPool {
 public:
  // Calls body(slots).
  template <class Body>
  void with_slots(Body&& body) {
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

  // The number of each key of a list.
  std::span<const uint32_t> numbers(size_t list) const { return numbers_[list]; }
  // Keys by number.
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
  int shift_ = 0;  // shift of hashes to slots
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

// What the ranks of one host ask of a table of one other rank, each key once. Keys are numbered by
// first occurrence, in the order of the lists: all who have the same lists number them alike. Used
// by one thread.
class MergedLists {
 public:
  // One for each pair of (rank of the host, slot), in this order; borrowed until the next call.
  void merge(std::vector<FeatureKeys> lists, KeySlots& slots);

  size_t lists() const { return lists_.size(); }
  int64_t size() const { return numbers_.size(); }  // distinct keys
  std::span<const int64_t> keys() const { return numbers_.keys(); }
  // The sum of the counts of each distinct key, where the lists have some.
  std::span<const int32_t> counts() const { return counts_; }

  // `width` values of each distinct key become those of the keys of a list.
  template <class T>
  void spread(size_t list, const T* distinct, int64_t width, T* to) const {
    const std::span<const uint32_t> numbers = numbers_.numbers(list);
    for (size_t i = 0; i < numbers.size(); ++i)
      std::copy_n(distinct + numbers[i] * width, width, to + static_cast<int64_t>(i) * width);
  }

  // The values of first occurrences become those of distinct keys; from(list) are those of a list.
  template <class T, class From>
  void pack(const From& from, int64_t width, T* distinct) const {
    uint32_t next = 0;
    for_each_value<T>(from, width, [&](uint32_t number, const T* value) {
      if (number != next) return;
      std::copy_n(value, width, distinct + number * width);
      ++next;
    });
  }

  // The same with sums over all occurrences, in the order of the lists.
  template <class From>
  void sum(const From& from, int64_t width, float* distinct) const {
    uint32_t next = 0;
    for_each_value<float>(from, width, [&](uint32_t number, const float* value) {
      float* const to = distinct + number * width;
      if (number == next) {
        std::copy_n(value, width, to);
        ++next;
      } else {
        for (int64_t d = 0; d < width; ++d) to[d] += value[d];
      }
    });
  }

 private:
  template <class T, class From, class Body>
  void for_each_value(const From& from, int64_t width, const Body& body) const {
    for (size_t list = 0; list < lists_.size(); ++list) {
      const std::span<const uint32_t> numbers = numbers_.numbers(list);
      const T* values = numbers.empty() ? nullptr : from(list);
      for (size_t i = 0; i < numbers.size(); ++i)
        body(numbers[i], values + static_cast<int64_t>(i) * width);
    }
  }

  std::vector<FeatureKeys> lists_;
  KeyNumbers numbers_;
  HostVector<int32_t> counts_;
};

}  // namespace emblem
