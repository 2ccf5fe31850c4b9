// serve/net/worker_pool.h - threads for what would hold up the other connections of an event loop:
// expanding and compressing, reading and writing large texts.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace emblem {

// Thread-safe.
class WorkerPool {
 public:
  // Does one step of a job; true: there is more to do, and the other jobs come first. What it
  // throws is logged, and ends the job.
  using Job = std::function<bool()>;

  // `threads` 0: a job runs on the thread that adds it. Throws when a thread cannot be started.
  WorkerPool(int threads, size_t most_waiting, const char* purpose);
  ~WorkerPool();  // stop()

  // False, without the job, when too many wait.
  [[nodiscard]] bool try_add(Job job);
  // For jobs whose number is bounded elsewhere.
  void add(Job job);
  // Waits for the steps that run; jobs that are not finished are dropped, and so are later ones.
  void stop();

  size_t waiting() const;

 private:
  void run();
  void push(Job job);

  const size_t most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace emblem
