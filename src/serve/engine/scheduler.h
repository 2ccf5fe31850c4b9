// serve/engine/scheduler.h - requests of one model version on their way through queue and engines.
//
// Thread-safe. Owns a thread an engine, joined by close(). A request that finds everything idle
// runs on the thread that brought it, which saves two changes of threads; all others queue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/engine/batch_queue.h"
#include "serve/engine/servable.h"
#include "serve/protocol/model_statistics.h"

namespace emblem {

class Scheduler {
 public:
  // `name` and `version` go into answers and statistics. Throws kUnavailable when the threads
  // cannot be started.
  Scheduler(std::string name, std::string version, BatchOptions options,
            std::vector<std::unique_ptr<Engine>> engines);
  ~Scheduler();  // closes

  // False, with nothing moved from, once it is closed. Otherwise `done` is called with the answer,
  // or with what went wrong: the queue is full, say.
  bool submit(std::unique_ptr<InferRequest>& request, int64_t rows, InferDone& done);

  // Counts a request that failed before it could be queued.
  void count_failure(ErrorCode code);

  // Takes no more requests, finishes those that it has, and joins its threads.
  void close();

  ModelStatistics statistics() const;

 private:
  using Batch = std::vector<BatchQueue::Entry>;

  // An engine while a batch runs on it. Comes back whatever happens.
  class EngineLease {
   public:
    explicit EngineLease(Scheduler& scheduler);  // there must be an idle one; with mutex_ held
    ~EngineLease();                              // without
    EngineLease(const EngineLease&) = delete;
    Engine* operator->() const { return engine_.get(); }

   private:
    Scheduler& scheduler_;
    std::unique_ptr<Engine> engine_;
  };

  void work() noexcept;
  void take_batches(std::unique_lock<std::mutex>& lock);
  // Runs a batch and answers its requests; without mutex_.
  void run(EngineLease& engine, Batch& batch) noexcept;
  void finish(Batch& batch, std::vector<EngineTask>& tasks, const EngineTimes& times) noexcept;
  void fail(Batch& entries) noexcept;
  void fail(BatchQueue::Entry& entry, const Error& error) noexcept;
  void record(const Batch& batch, const std::vector<EngineTask>& tasks, const EngineTimes& times);

  const std::string name_, version_;
  const bool runs_inline_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  BatchQueue queue_;
  std::vector<std::unique_ptr<Engine>> idle_;
  size_t running_ = 0;  // batches
  bool closed_ = false;
  std::vector<std::thread> threads_;

  mutable std::mutex statistics_mutex_;
  ModelStatistics statistics_;
};

}  // namespace emblem
