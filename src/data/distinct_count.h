// data/distinct_count.h - how many different values there are, in little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <unordered_set>

#include "core/math/hash.h"

namespace emblem {

// Keeps the smallest hashes seen: how densely they lie tells how many different ones there are.
// Exact up to 1023, then within some 3%.
class DistinctCount {
 public:
  void add(uint64_t hash) {
    if (kept_.size() == kKept && hash >= largest_.top()) return;
    if (!kept_.insert(hash).second) return;
    largest_.push(hash);
    if (kept_.size() <= kKept) return;
    kept_.erase(largest_.top());
    largest_.pop();
  }
  bool exact() const { return kept_.size() < kKept; }
  double estimate() const {
    if (exact()) return static_cast<double>(kept_.size());
    return static_cast<double>(kKept - 1) * 0x1p64 / static_cast<double>(largest_.top());
  }
  // Estimated share of these values that `other` has, too; 0 where there are none.
  double share_in(const DistinctCount& other) const {
    int64_t compared = 0, common = 0;
    for (const uint64_t hash : kept_) {
      if (!other.exact() && hash > other.largest_.top()) continue;
      ++compared;
      common += other.kept_.contains(hash);
    }
    return compared == 0 ? 0 : static_cast<double>(common) / static_cast<double>(compared);
  }

 private:
  static constexpr size_t kKept = 1024;
  std::unordered_set<uint64_t> kept_;
  std::priority_queue<uint64_t> largest_;
};

// mix64 keeps 0, which would read as a smallest hash; any bijection in front moves it.
inline uint64_t hash_of_integer(int64_t value) {
  return mix64(static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15ull);
}

}  // namespace emblem
