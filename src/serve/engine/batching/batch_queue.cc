#include "serve/engine/batching/batch_queue.h"

#include <algorithm>

namespace emblem {

BatchQueue::BatchQueue(BatchOptions options) : options_(std::move(options)) {
  std::sort(options_.preferred.begin(), options_.preferred.end());
  const uint64_t last = std::max<uint64_t>(1, options_.priority_levels);
  for (uint64_t priority = 1; priority <= last; ++priority) {
    const auto own = options_.policies.find(priority);
    levels_[priority].policy = own == options_.policies.end() ? options_.policy : own->second;
  }
  if (options_.slo_p99.count() > 0 && options_.dynamic && options_.max_batch_rows > 0)
    slo_.emplace(options_.slo_p99);
}

uint64_t BatchQueue::priority_of(const InferRequest& request) const {
  const uint64_t asked = request.priority;
  if (asked > 0 && asked <= options_.priority_levels) return asked;
  return std::max<uint64_t>(1, options_.default_priority);
}

bool BatchQueue::push(Entry& entry, Time now) {
  Level& level = levels_.at(priority_of(*entry.request));
  const QueuePolicy& policy = level.policy;
  if (policy.max_size > 0 &&
      static_cast<int64_t>(level.entries.size() + level.delayed.size()) >= policy.max_size) {
    throw Error(ErrorCode::kUnavailable, cat("Exceeds maximum queue size: ", policy.max_size,
                                             " requests wait already; try again later"));
  }
  auto timeout = policy.default_timeout;
  const std::chrono::microseconds asked(entry.request->timeout_us);
  if (policy.allow_override && asked.count() > 0 && (timeout.count() == 0 || asked < timeout))
    timeout = asked;
  entry.queued = now;
  if (timeout.count() > 0) entry.deadline = now + timeout;
  const int64_t before = rows_, after = rows_ + entry.rows;
  const bool waits = waits_for_others() && !entry.deadline && options_.preferred.empty();
  level.entries.push_back(std::move(entry));
  rows_ = after;
  // Waking a thread for each of a batch's requests costs more than the batch. The time that a batch
  // may wait for depends on its size class.
  return !waits || before == 0 || after >= target_rows() ||
         (slo_ && ServiceTimes::size_class(before) != ServiceTimes::size_class(after));
}

void BatchQueue::finished(const Measured& batch) {
  times_.add(batch.rows, batch.time);
  if (slo_) slo_->finished(batch.requests, batch.late);
}

bool BatchQueue::waits_for_others() const {
  return slo_ ? slo_->expects_others() : options_.max_delay.count() > 0;
}

int64_t BatchQueue::target_rows() const {
  return options_.preferred.empty() ? options_.max_batch_rows
                                    : std::min(options_.preferred.back(), options_.max_batch_rows);
}

void BatchQueue::drop_expired(Level& level, Time now, std::vector<Entry>& expired) {
  const auto is_cancelled = [](const Entry& entry) {
    return entry.request->cancelled && entry.request->cancelled->load(std::memory_order_relaxed);
  };
  const auto is_late = [now](const Entry& entry) {
    return entry.deadline && *entry.deadline <= now && !entry.delayed;
  };
  for (std::deque<Entry>* entries : {&level.entries, &level.delayed}) {
    for (size_t i = 0; i < entries->size();) {
      Entry& entry = (*entries)[i];
      const bool cancelled = is_cancelled(entry);
      if (!cancelled && !is_late(entry)) {
        ++i;
        continue;
      }
      // It leaves its place only once it is in another: no memory for that must not lose it.
      if (cancelled || level.policy.at_timeout == QueuePolicy::AtTimeout::kReject) {
        expired.push_back(std::move(entry));
        rows_ -= expired.back().rows;
      } else {
        level.delayed.push_back(std::move(entry));
        level.delayed.back().delayed = true;
      }
      entries->erase(entries->begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

size_t BatchQueue::count_to_take(Time now, bool flush, std::optional<Time>& wake) const {
  if (!options_.dynamic || options_.max_batch_rows == 0) return 1;
  const int64_t target = target_rows();
  size_t count = 0, preferred_count = 0;
  int64_t rows = 0;
  bool full = false;
  Time oldest = now, arrived = now;
  for (const auto& [priority, level] : levels_) {
    for (const std::deque<Entry>* entries : {&level.entries, &level.delayed}) {
      for (const Entry& entry : *entries) {
        // A single request larger than the preferred sizes still runs alone.
        const int64_t limit = count == 0 ? options_.max_batch_rows : target;
        if (full || rows + entry.rows > limit) {
          full = true;
          break;
        }
        rows += entry.rows;
        ++count;
        oldest = std::min(oldest, entry.queued);
        arrived = std::min(arrived, entry.request->arrived);
        if (std::binary_search(options_.preferred.begin(), options_.preferred.end(), rows))
          preferred_count = count;
      }
    }
  }
  if (preferred_count > 0) return preferred_count;
  if (full || flush || rows >= target || !waits_for_others()) return count;
  const Time start = slo_ ? arrived + slo_->delay(rows, times_) : oldest + options_.max_delay;
  if (now >= start) return count;
  wake = start;
  return 0;
}

void BatchQueue::next(Time now, bool flush, Next& next) {
  next.wake.reset();
  for (auto& [priority, level] : levels_) drop_expired(level, now, next.expired);
  if (empty()) return;
  size_t count = count_to_take(now, flush, next.wake);
  for (auto& [priority, level] : levels_) {
    for (std::deque<Entry>* entries : {&level.entries, &level.delayed}) {
      for (; count > 0 && !entries->empty(); --count) {
        next.batch.push_back(std::move(entries->front()));
        rows_ -= next.batch.back().rows;
        entries->pop_front();
      }
    }
  }
  // No new request may come before a deadline: the caller must wake up for it.
  for (const auto& [priority, level] : levels_) {
    for (const Entry& entry : level.entries) {
      if (entry.deadline && (!next.wake || *entry.deadline < *next.wake))
        next.wake = entry.deadline;
    }
  }
}

size_t BatchQueue::size() const {
  size_t size = 0;
  for (const auto& [priority, level] : levels_) size += level.entries.size() + level.delayed.size();
  return size;
}

}  // namespace emblem
