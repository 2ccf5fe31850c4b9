// ps/tables/unique_keys.h - the different keys of a batch, in order of first occurrence.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/hash.h"

namespace emblem {

// Allocates nothing once it has seen its largest batch.
class UniqueKeys {
 public:
  void clear(size_t most) {
    keys_.clear();
    const size_t slots = std::bit_ceil(most * 2 + 1);
    if (slots > slots_.size()) slots_.resize(slots);
    mask_ = slots - 1;
    std::fill(slots_.begin(), slots_.begin() + static_cast<int64_t>(slots), kNone);
  }
  // The number of the key among the different ones.
  uint32_t add(int64_t key) {
    for (size_t at = mix64(static_cast<uint64_t>(key)) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at] == kNone) {
        slots_[at] = static_cast<uint32_t>(keys_.size());
        keys_.push_back(key);
        return slots_[at];
      }
      if (keys_[slots_[at]] == key) return slots_[at];
    }
  }
  std::span<const int64_t> keys() const { return keys_; }

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  std::vector<int64_t> keys_;
  std::vector<uint32_t> slots_;
  size_t mask_ = 0;
};

}  // namespace emblem
