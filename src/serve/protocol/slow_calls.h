// serve/protocol/slow_calls.h - runs what takes long, one after the other, on a thread of its own,
// so that the threads of a server stay free for others.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace emblem {

// Thread-safe.
class SlowCalls {
 public:
  SlowCalls();
  // Waits for the call that runs; those that wait are dropped.
  ~SlowCalls();

  // False when too many wait already. What `call` throws is logged.
  bool add(std::function<void()> call);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace emblem
