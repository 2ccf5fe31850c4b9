// embedding/cpu/admission.h - counts the occurrences of keys that have no row yet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding/cpu/key_index.h"
#include "embedding/table.h"

namespace emblem {

// Thread-compatible.
class Admission {
 public:
  // threshold <= 1 admits every key at once. `capacity`: most keys to count; 0: no limit.
  Admission(int64_t threshold, int64_t capacity) : threshold_(threshold), capacity_(capacity) {}

  bool open() const { return threshold_ <= 1; }
  // Adds `occurrences` of a key. Returns its total when that reaches the threshold (and removes the
  // key), else 0.
  int64_t count(int64_t key, int64_t occurrences);
  // To be called after each batch: drops the keys with the lowest counts (ties: the smaller key),
  // in bulk, when there are too many.
  void prune();

  int64_t size() const { return counts_.size(); }
  int64_t bytes() const { return counts_.bytes(); }
  std::vector<KeyCount> sorted() const;  // keys ascending
  void restore(std::span<const KeyCount> counts);
  void clear() { counts_.clear(); }

 private:
  int64_t threshold_;
  int64_t capacity_;
  KeyIndex counts_;  // the value is the count
};

}  // namespace emblem
