// serve/protocol/slow_calls.h - runs what takes long on threads of its own, so that the threads of
// a server's connections stay free for others.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace emblem {

// Thread-safe.
class SlowCalls {
 public:
  // `purpose` names the threads.
  explicit SlowCalls(const char* purpose = "slow calls", int threads = 1, size_t most_waiting = 64);
  // Waits for the calls that run; those that wait are dropped.
  ~SlowCalls();

  // False when too many wait already. What `call` throws is logged.
  bool add(std::function<void()> call);

 private:
  void run();
  void stop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool is_stopped_ = false;
  const size_t most_waiting_;
  std::vector<std::thread> threads_;
};

}  // namespace emblem
