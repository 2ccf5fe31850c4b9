// embedding/cpu/admission.h - counts the occurrences of keys that have no row yet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding/bins.h"
#include "embedding/cpu/key_index.h"
#include "embedding/table.h"

namespace emblem {

// Thread-compatible.
class Admission {
 public:
  // threshold <= 1 admits every key at once. `capacity`: most keys of a bin to count; 0: no limit.
  Admission(int64_t threshold, int64_t capacity, const HeldBins& bins = {})
      : threshold_(threshold),
        capacity_(capacity),
        bins_(bins),
        counts_(static_cast<size_t>(bins.count)) {}

  bool open() const { return threshold_ <= 1; }
  // Adds `occurrences` of a key. Returns its total when that reaches the threshold (and removes the
  // key), else 0.
  int64_t count(int64_t key, int64_t occurrences);
  // To be called after each batch: drops the keys of a bin with the lowest counts (ties: the
  // smaller key), in bulk, when there are too many.
  void prune();

  int64_t bytes() const;
  std::vector<KeyCount> sorted() const;  // keys ascending
  void restore(std::span<const KeyCount> counts);
  void clear();

 private:
  int64_t threshold_;
  int64_t capacity_;
  HeldBins bins_;
  std::vector<KeyIndex> counts_;  // by bin; the value is the count
};

}  // namespace emblem
