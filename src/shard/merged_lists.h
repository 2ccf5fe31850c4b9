// shard/merged_lists.h - what the ranks of one host ask of a table of one other rank, each key
// once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "shard/key_numbers.h"

namespace emblem {

// Keys are numbered by first occurrence, in the order of the lists: all who have the same lists
// number them alike. Used by one thread.
class MergedLists {
 public:
  // One for each pair of (rank of the host, slot), in this order; borrowed until the next call.
  void merge(std::vector<FeatureKeys> lists, KeySlots& slots);

  size_t lists() const { return lists_.size(); }
  int64_t size() const { return numbers_.size(); }  // distinct keys
  std::span<const int64_t> keys() const { return numbers_.keys(); }
  // Of each distinct key: the sum of its counts, where the lists have some.
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
