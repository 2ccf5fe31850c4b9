#include "serve/net/worker_pool.h"

#include "core/caught_error.h"
#include "core/start_thread.h"

namespace emblem {
namespace {

bool step(const WorkerPool::Job& job) noexcept {
  try {
    return job();
  } catch (...) {
    log_caught("a job of a server's workers");
    return false;
  }
}

}  // namespace

WorkerPool::WorkerPool(int threads, size_t most_waiting, const char* purpose)
    : most_waiting_(most_waiting) {
  try {
    for (int i = 0; i < threads; ++i) threads_.push_back(start_thread(purpose, [this] { run(); }));
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  std::deque<Job> dropped;
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool WorkerPool::try_add(Job job) {
  if (!threads_.empty() && waiting() >= most_waiting_) return false;
  add(std::move(job));
  return true;
}

void WorkerPool::add(Job job) {
  if (!threads_.empty()) return push(std::move(job));
  while (step(job)) {
  }
}

void WorkerPool::push(Job job) {
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

size_t WorkerPool::waiting() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

void WorkerPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_stopped_ || !jobs_.empty(); });
    if (is_stopped_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const bool has_more = step(job);
    if (!has_more) job = nullptr;
    lock.lock();
    if (has_more && !is_stopped_) jobs_.push_back(std::move(job));
  }
}

}  // namespace emblem
