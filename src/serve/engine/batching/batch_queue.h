// serve/engine/batching/batch_queue.h - which requests run together, and when: dynamic batching
// with the meaning that Triton gives its options.
//
// Without dynamic batching every request is a batch. With it, requests of the highest priority are
// taken in order of arrival as long as they fit max_batch_rows; a request is never split. Where a
// preferred size can be reached the largest such is taken at once; otherwise everything goes, but
// with a delay only once the oldest request has waited that long or the batch is full. With a
// latency target the delay follows from it (serve/engine/batching/slo_batching.h).
//
// Not thread-safe. The caller passes the time, so that tests need no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "serve/engine/batching/slo_batching.h"
#include "serve/protocol/inference_service.h"

namespace emblem {

struct QueuePolicy {
  enum class AtTimeout { kReject, kDelay };
  AtTimeout at_timeout = AtTimeout::kReject;     // kDelay: after all that have not timed out
  std::chrono::microseconds default_timeout{0};  // 0: none
  bool allow_override = false;                   // requests may ask for a shorter one
  int64_t max_size = 0;                          // requests; 0: no limit
};

struct BatchOptions {
  bool dynamic = false;
  int64_t max_batch_rows = 0;  // 0: no limit, and no batching
  std::vector<int64_t> preferred;
  std::chrono::microseconds max_delay{0};
  // Target for p99 from arrival to answer; takes the place of max_delay. 0: none.
  std::chrono::microseconds slo_p99{0};
  uint64_t priority_levels = 0;  // 1 is the highest; 0: no priorities
  uint64_t default_priority = 0;
  QueuePolicy policy;
  std::map<uint64_t, QueuePolicy> policies;  // by priority level
};

class BatchQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Entry {
    std::unique_ptr<InferRequest> request;
    InferDone done;
    int64_t rows = 0;
    Time queued{};
    std::optional<Time> deadline;
    bool delayed = false;  // its time is out, but it may still run
  };

  // What to do now.
  struct Next {
    std::vector<Entry> batch;    // to run; empty: nothing yet
    std::vector<Entry> expired;  // timed out or cancelled, never to run
    std::optional<Time> wake;    // ask again then, without a batch
  };

  explicit BatchQueue(BatchOptions options);

  // Throws kUnavailable when the queue is full; the entry is moved from only when it is taken. A
  // priority that the model does not have is its default one, as in Triton. False: the caller need
  // not call next() before the time that it was told to wake up at.
  bool push(Entry& entry, Time now);
  // Adds to `next`; `flush`: no waiting for more. When it throws for lack of memory, every entry is
  // in the queue or in `next`.
  void next(Time now, bool flush, Next& next);

  // What a batch of this queue took, from the start of the engine to the last answer; `late`: of
  // its requests, were answered after the latency target.
  struct Measured {
    int64_t rows = 0, requests = 0, late = 0;
    std::chrono::nanoseconds time{0};
  };
  void finished(const Measured& batch);
  const ServiceTimes& times() const { return times_; }

  // Whether a request that finds the queue empty is to wait for others.
  bool waits_for_others() const;

  size_t size() const;
  bool empty() const { return size() == 0; }

 private:
  struct Level {
    QueuePolicy policy;
    std::deque<Entry> entries;  // in order of arrival
    std::deque<Entry> delayed;  // those past their timeout
  };

  void drop_expired(Level& level, Time now, std::vector<Entry>& expired);
  // How many entries from the front, in order of priority, make the batch; rows of each sum.
  size_t count_to_take(Time now, bool flush, std::optional<Time>& wake) const;
  int64_t target_rows() const;
  uint64_t priority_of(const InferRequest& request) const;

  BatchOptions options_;
  std::map<uint64_t, Level> levels_;  // by priority
  int64_t rows_ = 0;                  // rows of all entries
  ServiceTimes times_;
  std::optional<SloBatching> slo_;
};

}  // namespace emblem
