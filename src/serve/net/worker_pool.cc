#include "serve/net/worker_pool.h"

#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"

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
    : jobs_(most_waiting) {
  try {
    for (int i = 0; i < threads; ++i) threads_.push_back(start_thread(purpose, [this] { run(); }));
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  std::vector<std::pair<ClientKey, Job>> dropped;  // freed after the lock is released
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
    while (!jobs_.empty()) dropped.push_back(jobs_.pop());
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool WorkerPool::try_add(const ClientKey& client, Job job) {
  if (!threads_.empty()) {
    std::lock_guard lock(mutex_);
    if (jobs_.is_full_for(client)) return false;
  }
  add(client, std::move(job));
  return true;
}

void WorkerPool::add(const ClientKey& client, Job job) {
  if (threads_.empty()) {
    while (step(job)) {
    }
    return;
  }
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    jobs_.push(client, std::move(job));
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
    auto [client, job] = jobs_.pop();
    lock.unlock();
    const bool has_more = step(job);
    if (!has_more) job = nullptr;
    lock.lock();
    if (!has_more || is_stopped_) continue;
    try {
      jobs_.push(client, std::move(job));
    } catch (...) {
      log_caught("a job of a server's workers is dropped");
    }
  }
}

}  // namespace emblem
