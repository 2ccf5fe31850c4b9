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
  // `name` and `version` go into answers and statistics.
  Scheduler(std::string name, std::string version, BatchOptions options,
            std::vector<std::unique_ptr<Engine>> engines);
  ~Scheduler();  // closes

  // False, with nothing moved from, once it is closed. Otherwise `done` hears of the request, be it
  // that the queue is full.
  bool submit(std::unique_ptr<InferRequest>& request, int64_t rows, InferDone& done);

  // Counts a request that failed before it could be queued.
  void count_failure(ErrorCode code);

  // Takes no more requests, finishes those that it has, and joins its threads.
  void close();

  ModelStatistics statistics() const;

 private:
  using Batch = std::vector<BatchQueue::Entry>;

  void work();
  std::unique_ptr<Engine> take_engine();  // there must be an idle one; with mutex_ held
  // Runs a batch and makes the engine idle again; `lock` is held before and after.
  void run(std::unique_ptr<Engine> engine, Batch batch, std::unique_lock<std::mutex>& lock);
  void finish(Batch& batch, std::vector<EngineTask>& tasks, const EngineTimes& times);
  void fail(Batch& entries);
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
