#include "serve/engine/batching/scheduler.h"

#include <algorithm>

#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPauseWithoutMemory{10};

// Copying these needs no memory.
const Error was_cancelled(ErrorCode::kCancelled, "the request was cancelled");
const Error was_late(ErrorCode::kUnavailable, "Request timeout expired in the queue");

uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<uint64_t>(std::max<int64_t>(
      0, std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count()));
}

uint64_t milliseconds_since_1970() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

bool is_cancelled(const InferRequest& request) {
  return request.cancelled && request.cancelled->load(std::memory_order_relaxed);
}

void answer(BatchQueue::Entry& entry, InferResult result) noexcept {
  try {
    entry.done(std::move(result));
  } catch (...) {
    log_caught("an answer could not be sent");
  }
}

void note_times(const BatchQueue::Entry& entry, const EngineTimes& times, RequestTimes& to) {
  to.queued = entry.queued;
  to.compute_start = times.start;
  to.input_end = times.input_end;
  to.infer_end = times.infer_end;
  to.compute_end = times.output_end;
}

// What a request asked of the outputs of its engine.
void choose_outputs(const InferRequest& request, std::vector<OutputTensor>& outputs) {
  if (request.outputs.empty()) return;
  std::vector<OutputTensor> chosen;
  for (const RequestedOutput& wanted : request.outputs) {
    for (OutputTensor& output : outputs) {
      if (output.name != wanted.name) continue;
      if (wanted.classes > 0)
        chosen.push_back(classify(output, wanted.classes, true, {}));
      else
        chosen.push_back(std::move(output));
    }
  }
  outputs = std::move(chosen);
}

}  // namespace

Scheduler::Scheduler(std::string name, std::string version, BatchOptions options,
                     std::vector<std::unique_ptr<Engine>> engines, Blocking blocking)
    : name_(std::move(name)),
      version_(std::move(version)),
      blocking_(blocking),
      latency_target_(SloBatching::target_here(options.slo_p99)),
      queue_(std::move(options)),
      idle_(std::move(engines)) {
  statistics_.name = name_;
  statistics_.version = version_;
  const size_t engines_count = idle_.size();
  threads_.reserve(engines_count);
  try {
    for (size_t i = 0; i < engines_count; ++i)
      threads_.push_back(start_thread("a model's engine", [this] { work(); }));
  } catch (...) {
    close();
    throw;
  }
}

Scheduler::~Scheduler() { close(); }

bool Scheduler::submit(std::unique_ptr<InferRequest>& request, int64_t rows, InferDone& done) {
  const auto now = Clock::now();  // waiting for mutex_ is waiting, too
  Batch batch(1);
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  batch[0] = {.request = std::move(request), .done = std::move(done), .rows = rows};
  BatchQueue::Entry& entry = batch[0];
  count_arrival(now);
  if (runs_inline(rows)) {
    entry.queued = now;
    EngineLease engine(*this);
    lock.unlock();
    run(engine, batch);
    return true;
  }
  bool wake = true;
  try {
    wake = queue_.push(entry, now);
  } catch (...) {
    lock.unlock();
    fail(entry, caught_error());
    return true;
  }
  lock.unlock();
  if (wake) changed_.notify_one();
  return true;
}

void Scheduler::count_arrival(BatchQueue::Time now) {
  using std::chrono::nanoseconds;
  const nanoseconds gap =
      std::clamp<nanoseconds>(now - last_arrival_, nanoseconds(0), std::chrono::seconds(1));
  between_arrivals_ += (gap - between_arrivals_) / 8;
  last_arrival_ = now;
}

// Where requests come faster than half of what one engine can answer, their threads had better read
// the next ones, to be batched.
bool Scheduler::runs_inline(int64_t rows) const {
  if (blocking_ == Blocking::kPossible || running_ > 0 || !queue_.empty()) return false;
  if (queue_.waits_for_others()) return false;
  const auto expected = queue_.times().mean(rows);
  return expected && *expected <= kInlineLimit && between_arrivals_ >= 2 * *expected;
}

void Scheduler::work() noexcept {
  std::unique_lock lock(mutex_);
  while (!closed_ || !queue_.empty()) {
    try {
      take_batches(lock);
    } catch (...) {  // no memory to take requests out of the queue: they wait there
      log_caught("a batch could not be formed");
      if (!lock.owns_lock()) lock.lock();
      changed_.wait_for(lock, kPauseWithoutMemory);
    }
  }
}

// Returns when the queue has to be looked at again; `lock` is held before and after.
void Scheduler::take_batches(std::unique_lock<std::mutex>& lock) {
  BatchQueue::Next next;
  std::exception_ptr problem;
  try {
    if (!idle_.empty()) queue_.next(Clock::now(), closed_, next);
  } catch (...) {  // what `next` holds by now is not in the queue any more
    problem = std::current_exception();
  }
  const bool changed = !next.expired.empty() || !next.batch.empty();
  if (changed) {
    std::optional<EngineLease> engine;
    if (!next.batch.empty()) engine.emplace(*this);
    const bool more = !queue_.empty();
    lock.unlock();
    if (more) changed_.notify_one();
    fail(next.expired);
    if (engine) run(*engine, next.batch);
    engine.reset();
    lock.lock();
  }
  if (problem != nullptr) std::rethrow_exception(problem);
  if (changed || (closed_ && queue_.empty())) return;
  if (next.wake) {
    changed_.wait_until(lock, *next.wake);
  } else {
    changed_.wait(lock);
  }
}

Scheduler::EngineLease::EngineLease(Scheduler& scheduler)
    : scheduler_(scheduler), engine_(std::move(scheduler.idle_.back())) {
  scheduler.idle_.pop_back();
  ++scheduler.running_;
}

Scheduler::EngineLease::~EngineLease() {
  const std::lock_guard lock(scheduler_.mutex_);
  if (measured_) scheduler_.queue_.finished(*measured_);
  --scheduler_.running_;
  scheduler_.idle_.push_back(std::move(engine_));  // there is room: it was there before
  if (!scheduler_.queue_.empty() || scheduler_.closed_) scheduler_.changed_.notify_all();
}

void Scheduler::run(EngineLease& engine, Batch& batch) noexcept {
  try {
    std::vector<EngineTask> tasks;
    tasks.reserve(batch.size());
    for (const auto& entry : batch)
      tasks.push_back({.request = entry.request.get(), .rows = entry.rows});
    EngineTimes times;
    engine->run(tasks, times);
    engine.set(measure(batch, times));
    finish(batch, tasks, times);
  } catch (...) {  // no memory for the tasks
    const Error error = caught_error();
    for (BatchQueue::Entry& entry : batch) fail(entry, error);
  }
}

BatchQueue::Measured Scheduler::measure(const Batch& batch, const EngineTimes& times) const {
  const auto now = Clock::now();
  BatchQueue::Measured measured{.requests = static_cast<int64_t>(batch.size()),
                                .time = now - times.start};
  for (const BatchQueue::Entry& entry : batch) {
    measured.rows += entry.rows;
    if (now - entry.request->arrived > latency_target_) ++measured.late;
  }
  return measured;
}

void Scheduler::finish(Batch& batch, std::vector<EngineTask>& tasks,
                       const EngineTimes& times) noexcept {
  for (const BatchQueue::Entry& entry : batch) {
    if (entry.request->trace) note_times(entry, times, entry.request->trace->times);
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    try {
      if (!tasks[i].error) choose_outputs(*batch[i].request, tasks[i].outputs);
    } catch (...) {
      tasks[i].error = caught_error();
    }
  }
  try {
    record(batch, tasks, times);
  } catch (...) {
    log_caught("a batch could not be counted");
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (tasks[i].error) {
      answer(batch[i], *tasks[i].error);
      continue;
    }
    try {
      InferResponse response{name_,
                             version_,
                             batch[i].request->id,
                             std::move(tasks[i].outputs),
                             std::move(tasks[i].parameters),
                             std::move(batch[i].request->answer_memory)};
      answer(batch[i], std::move(response));
    } catch (...) {
      answer(batch[i], caught_error());
    }
  }
}

void Scheduler::fail(Batch& entries) noexcept {
  for (BatchQueue::Entry& entry : entries)
    fail(entry, is_cancelled(*entry.request) ? was_cancelled : was_late);
}

void Scheduler::fail(BatchQueue::Entry& entry, const Error& error) noexcept {
  count_failure(error.code());
  answer(entry, error);
}

void Scheduler::record(const Batch& batch, const std::vector<EngineTask>& tasks,
                       const EngineTimes& times) {
  const uint64_t input = ns_between(times.start, times.input_end);
  const uint64_t infer = ns_between(times.input_end, times.infer_end);
  const uint64_t output = ns_between(times.infer_end, times.output_end);
  const auto now = Clock::now();
  uint64_t rows = 0;
  const std::lock_guard lock(statistics_mutex_);
  for (size_t i = 0; i < batch.size(); ++i) {
    const uint64_t whole = ns_between(batch[i].request->arrived, now);
    if (tasks[i].error) {
      statistics_.fail.add(whole);
      continue;
    }
    rows += static_cast<uint64_t>(batch[i].rows);
    statistics_.success.add(whole);
    statistics_.queue.add(ns_between(batch[i].queued, times.start));
    statistics_.compute_input.add(input);
    statistics_.compute_infer.add(infer);
    statistics_.compute_output.add(output);
    statistics_.latency.add(whole);
  }
  if (rows == 0) return;
  statistics_.inference_count += rows;
  ++statistics_.execution_count;
  statistics_.last_inference_ms = milliseconds_since_1970();
  BatchStatistics& of_size = statistics_.by_batch[rows];
  of_size.compute_input.add(input);
  of_size.compute_infer.add(infer);
  of_size.compute_output.add(output);
}

void Scheduler::count_failure(ErrorCode code) {
  const std::lock_guard lock(statistics_mutex_);
  statistics_.fail.add(0);
  if (code == ErrorCode::kUnavailable) ++statistics_.rejected;
  if (code == ErrorCode::kCancelled) ++statistics_.cancelled;
}

void Scheduler::close() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
  // Requests that run on the threads that brought them.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
}

ModelStatistics Scheduler::statistics() const {
  ModelStatistics statistics;
  {
    const std::lock_guard lock(statistics_mutex_);
    statistics = statistics_;
  }
  const std::lock_guard lock(mutex_);
  statistics.pending = queue_.size();
  return statistics;
}

}  // namespace emblem
