// serve/engine/batching/scheduler.h - requests of one model version on their way through queue
// and engines.
//
// Thread-safe. Owns a thread per engine, joined by close(). A request runs on the thread that
// brought it, which saves two changes of threads, if it finds everything idle and can hold that
// thread for a moment only: the model cannot block, batches of its size took less than
// kInlineLimit, and requests come so rarely that there is nothing to batch. All others queue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/engine/batching/batch_queue.h"
#include "serve/engine/servable.h"
#include "serve/protocol/model_statistics.h"

namespace emblem {

// Whether batches may wait for another machine or a disk (Servable::may_block).
enum class Blocking { kNever, kPossible };

class Scheduler {
 public:
  // The thread that brings a request may serve thousands of connections.
  static constexpr std::chrono::microseconds kInlineLimit{200};

  // `name` and `version` go into answers and statistics. Throws kUnavailable when the threads
  // cannot be started.
  Scheduler(std::string name, std::string version, BatchOptions options,
            std::vector<std::unique_ptr<Engine>> engines, Blocking blocking = Blocking::kNever);
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

  // An engine while a batch runs on it. Comes back whatever happens, with what was measured.
  class EngineLease {
   public:
    explicit EngineLease(Scheduler& scheduler);  // there must be an idle one; with mutex_ held
    ~EngineLease();                              // without
    EngineLease(const EngineLease&) = delete;
    Engine* operator->() const { return engine_.get(); }
    void set(const BatchQueue::Measured& measured) { measured_ = measured; }

   private:
    Scheduler& scheduler_;
    std::unique_ptr<Engine> engine_;
    std::optional<BatchQueue::Measured> measured_;
  };

  bool runs_inline(int64_t rows) const;  // with mutex_ held
  void count_arrival(BatchQueue::Time now);
  void work() noexcept;
  void take_batches(std::unique_lock<std::mutex>& lock);
  // Runs a batch and answers its requests; without mutex_.
  void run(EngineLease& engine, Batch& batch) noexcept;
  BatchQueue::Measured measure(const Batch& batch, const EngineTimes& times) const;
  void finish(Batch& batch, std::vector<EngineTask>& tasks, const EngineTimes& times) noexcept;
  void fail(Batch& entries) noexcept;
  void fail(BatchQueue::Entry& entry, const Error& error) noexcept;
  void record(const Batch& batch, const std::vector<EngineTask>& tasks, const EngineTimes& times);

  const std::string name_, version_;
  const Blocking blocking_;
  const std::chrono::nanoseconds latency_target_;  // 0: none
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  BatchQueue queue_;
  std::vector<std::unique_ptr<Engine>> idle_;
  size_t running_ = 0;  // batches
  bool closed_ = false;
  BatchQueue::Time last_arrival_{};
  std::chrono::nanoseconds between_arrivals_{0};  // a moving mean
  std::vector<std::thread> threads_;

  mutable std::mutex statistics_mutex_;
  ModelStatistics statistics_;
};

}  // namespace emblem
