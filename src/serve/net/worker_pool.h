// serve/net/worker_pool.h - threads for what would hold up the other connections of an event loop:
// expanding and compressing, reading and writing large texts. Clients have equal shares of them
// (serve/net/fair_queue.h).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/net/fair_queue.h"

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

  // False, without the job, when too many of the client's wait.
  [[nodiscard]] bool try_add(const ClientKey& client, Job job);
  // Adds a job whose number is bounded elsewhere.
  void add(const ClientKey& client, Job job);
  // Waits for the steps that run; jobs that are not finished are dropped, and so are later ones.
  void stop();

  size_t waiting() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue<Job> jobs_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace emblem
