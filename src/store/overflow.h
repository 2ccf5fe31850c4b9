// store/overflow.h - how many rows a part of a table may have, and which are evicted when there
// are more.
#pragma once

#include <cstdint>
#include <limits>

namespace emblem {

enum class OverflowPolicy { kEvictRandom, kEvictLeastUsed, kEvictOldest };

// When a partition has more than `margin` rows, rows leave until `target * margin` are left.
struct Overflow {
  uint64_t margin = std::numeric_limits<uint64_t>::max();
  OverflowPolicy policy = OverflowPolicy::kEvictRandom;
  double target = 0.8;

  bool limited() const { return margin != std::numeric_limits<uint64_t>::max(); }
};

}  // namespace emblem
