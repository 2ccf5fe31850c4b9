// data/source/retry.h - retries after errors that may pass: connections that break, servers that
// are busy.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace emblem {

// Whether a store answers; may outlive the storage.
struct StoreActivity {
  std::atomic<int64_t> answers{0};    // requests that succeeded, and pieces of uploads
  std::atomic<int64_t> waiting{0};    // requests under way, or about to be tried again
  std::atomic<int64_t> under_way{0};  // bytes of uploads that no answer has come for
};

// The share of one upload in them.
class BytesUnderWay {
 public:
  explicit BytesUnderWay(StoreActivity& activity) : activity_(activity) {}
  BytesUnderWay(const BytesUnderWay&) = delete;
  BytesUnderWay& operator=(const BytesUnderWay&) = delete;
  ~BytesUnderWay() { activity_.under_way -= bytes_; }

  // Ahead of each piece, with it.
  void set(int64_t bytes, bool has_taken) {
    if (has_taken) ++activity_.answers;
    activity_.under_way += bytes - bytes_;
    bytes_ = bytes;
  }

 private:
  StoreActivity& activity_;
  int64_t bytes_ = 0;
};

// What all downloads and uploads of a process did; added to by many threads.
struct RequestCounters {
  const std::shared_ptr<StoreActivity> activity = std::make_shared<StoreActivity>();
  std::atomic<int64_t> requests{0}, retries{0};
  std::atomic<bool> stopped{false};  // nothing is tried again
};

// Calls `attempt` until it does not throw kUnavailable, up to 8 times. Waits in between, twice as
// long each time and a random part of it less, so that many clients do not return at once: some 30
// s in all. One warning per minute says what it waits for. What `before` throws, ahead of each
// attempt, is thrown at once.
void with_retries(RequestCounters& counters, const std::function<void()>& before,
                  const std::function<void()>& attempt);
inline void with_retries(RequestCounters& counters, const std::function<void()>& attempt) {
  with_retries(counters, {}, attempt);
}

}  // namespace emblem
