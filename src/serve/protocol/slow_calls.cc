#include "serve/protocol/slow_calls.h"

#include "core/caught_error.h"
#include "core/start_thread.h"

namespace emblem {

SlowCalls::SlowCalls(const char* purpose, int threads, size_t most_waiting)
    : most_waiting_(most_waiting) {
  try {
    for (int i = 0; i < threads; ++i) threads_.push_back(start_thread(purpose, [this] { run(); }));
  } catch (...) {
    stop();
    throw;
  }
}

SlowCalls::~SlowCalls() { stop(); }

void SlowCalls::stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool SlowCalls::add(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (calls_.size() >= most_waiting_) return false;
    calls_.push_back(std::move(call));
  }
  changed_.notify_one();
  return true;
}

void SlowCalls::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_stopped_ || !calls_.empty(); });
    if (is_stopped_) return;
    std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    try {
      call();
    } catch (...) {
      log_caught("a slow call");
    }
    call = nullptr;
    lock.lock();
  }
}

}  // namespace emblem
