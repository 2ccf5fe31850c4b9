#include "core/threads/start_thread.h"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace emblem {
namespace {

// Threads that wait for each other, so that all of them exist at the same time.
class WaitingThreads {
 public:
  ~WaitingThreads() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void add(const char* purpose) {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(start_thread(purpose, [this] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_; });
    }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

void require_threads(int count, const char* purpose) {
  WaitingThreads threads;
  for (int i = 0; i < count; ++i) threads.add(purpose);
}

}  // namespace emblem
