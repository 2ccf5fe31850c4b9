#include "serve/protocol/slow_calls.h"

#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"

namespace emblem {
namespace {

constexpr size_t kMostWaiting = 64;

}  // namespace

SlowCalls::SlowCalls() : thread_(start_thread("slow calls", [this] { run(); })) {}

SlowCalls::~SlowCalls() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SlowCalls::add(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (calls_.size() >= kMostWaiting) return false;
    calls_.push_back(std::move(call));
  }
  changed_.notify_all();
  return true;
}

void SlowCalls::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_stopped_ || !calls_.empty(); });
    if (is_stopped_) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    try {
      call();
    } catch (...) {
      log_caught("a slow call");
    }
    lock.lock();
  }
}

}  // namespace emblem
