// store/miss_watch.h - says when more keys are missing than usual: it is time to ask whether rows
// were lost.
#pragma once

#include <atomic>
#include <cstdint>

namespace emblem {

// Thread-safe; some of several counts at the same moment may be missed.
class MissWatch {
 public:
  static constexpr int64_t kWindowMs = 1000;   // whose share of misses is the usual one then
  static constexpr double kFew = 0.01;         // share below which any miss counts
  static constexpr uint64_t kEnoughKeys = 64;  // to compare shares
  static constexpr double kRise = 2;           // factor by which the share rises

  // Counts one lookup. True at most once an interval.
  bool note(uint64_t keys, uint64_t misses, int64_t now_ms, int64_t interval_ms) {
    roll(now_ms);
    const uint64_t all = keys_.fetch_add(keys, std::memory_order_relaxed) + keys;
    const uint64_t missing = misses_.fetch_add(misses, std::memory_order_relaxed) + misses;
    if (misses == 0) return false;
    const double usual = usual_.load(std::memory_order_relaxed);
    const double share = static_cast<double>(missing) / static_cast<double>(all);
    const bool rises = usual < kFew || (all >= kEnoughKeys && share > kRise * usual);
    int64_t last = said_ms_.load(std::memory_order_relaxed);
    return rises && now_ms - last >= interval_ms &&
           said_ms_.compare_exchange_strong(last, now_ms, std::memory_order_relaxed);
  }

 private:
  void roll(int64_t now_ms) {
    int64_t begin = begin_ms_.load(std::memory_order_relaxed);
    if (now_ms - begin < kWindowMs ||
        !begin_ms_.compare_exchange_strong(begin, now_ms, std::memory_order_relaxed))
      return;
    const uint64_t keys = keys_.exchange(0, std::memory_order_relaxed);
    const uint64_t misses = misses_.exchange(0, std::memory_order_relaxed);
    if (keys > 0)
      usual_.store(static_cast<double>(misses) / static_cast<double>(keys),
                   std::memory_order_relaxed);
  }

  std::atomic<int64_t> begin_ms_{0}, said_ms_{INT64_MIN / 2};
  std::atomic<uint64_t> keys_{0}, misses_{0};
  std::atomic<double> usual_{0.0};
};

}  // namespace emblem
