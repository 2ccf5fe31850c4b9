// ps/tables/tier_counters.h - what a tier of a table did so far: counted without locks, read
// at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace emblem {

struct TierCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t nanoseconds = 0;  // in lookups; where several tables are read together, a share of it
  uint64_t errors = 0;       // lookups that the tier could not answer
};

// Threads on different CPUs count in different places, so that counting costs no more than an
// addition to memory at hand.
class TierCounters {
 public:
  // `cpu` is any number that differs between threads that run at the same time.
  void add(unsigned cpu, const TierCounts& counts) {
    Lane& lane = lanes_[cpu % lanes_.size()];
    if (counts.hits != 0) lane.hits.fetch_add(counts.hits, std::memory_order_relaxed);
    if (counts.misses != 0) lane.misses.fetch_add(counts.misses, std::memory_order_relaxed);
    if (counts.nanoseconds != 0) {
      lane.nanoseconds.fetch_add(counts.nanoseconds, std::memory_order_relaxed);
    }
    if (counts.errors != 0) lane.errors.fetch_add(counts.errors, std::memory_order_relaxed);
  }
  TierCounts read() const {
    TierCounts sum;
    for (const Lane& lane : lanes_) {
      sum.hits += lane.hits.load(std::memory_order_relaxed);
      sum.misses += lane.misses.load(std::memory_order_relaxed);
      sum.nanoseconds += lane.nanoseconds.load(std::memory_order_relaxed);
      sum.errors += lane.errors.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct alignas(64) Lane {
    std::atomic<uint64_t> hits{0}, misses{0}, nanoseconds{0}, errors{0};
  };
  std::array<Lane, 16> lanes_;
};

}  // namespace emblem
