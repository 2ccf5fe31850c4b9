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
  // threshold <= 1 admits everything at once. `capacity` 0: count as many keys as come.
  Admission(int64_t threshold, int64_t capacity) : threshold_(threshold), capacity_(capacity) {}

  bool open() const { return threshold_ <= 1; }
  // Adds `occurrences` of a key. Returns all so far when they reach the threshold (and forgets
  // the key), else 0.
  int64_t count(int64_t key, int64_t occurrences);
  // To be called after each batch: forgets the least counted (among equals: the smaller) keys when
  // there are too many, in bulk.
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
