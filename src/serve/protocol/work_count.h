// serve/protocol/work_count.h - counts the work that other threads do, so that what it needs can
// wait for its end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace emblem {

// Thread-safe.
class WorkCount {
 public:
  class Token {
   public:
    explicit Token(WorkCount& work) : work_(work) { ++work_.count_; }
    ~Token() { work_.end_one(); }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;

   private:
    WorkCount& work_;
  };

  // No further work may begin elsewhere meanwhile.
  void wait_until_none() {
    std::unique_lock lock(mutex_);
    is_waited_for_ = true;
    none_left_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  void end_one() {
    // With the lock held: once it is free, the last one's end may end the server, too.
    std::lock_guard lock(mutex_);
    if (--count_ == 0 && is_waited_for_) none_left_.notify_all();
  }

  std::atomic<int64_t> count_ = 0;
  bool is_waited_for_ = false;
  std::mutex mutex_;
  std::condition_variable none_left_;
};

}  // namespace emblem
