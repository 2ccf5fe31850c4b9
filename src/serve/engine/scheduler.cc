#include "serve/engine/scheduler.h"

#include <algorithm>

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

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

// What a request asked of the outputs of its engine.
void choose_outputs(const InferRequest& request, std::vector<OutputTensor>& outputs) {
  if (request.outputs.empty()) return;
  std::vector<OutputTensor> chosen;
  for (const RequestedOutput& wanted : request.outputs) {
    for (OutputTensor& output : outputs) {
      if (output.name != wanted.name) continue;
      chosen.push_back(wanted.classes > 0 ? classify(output, wanted.classes, true, {}) : output);
    }
  }
  outputs = std::move(chosen);
}

}  // namespace

Scheduler::Scheduler(std::string name, std::string version, BatchOptions options,
                     std::vector<std::unique_ptr<Engine>> engines)
    : name_(std::move(name)),
      version_(std::move(version)),
      runs_inline_(options.max_delay.count() == 0),
      queue_(std::move(options)),
      idle_(std::move(engines)) {
  statistics_.name = name_;
  statistics_.version = version_;
  for (size_t i = 0; i < idle_.size(); ++i) threads_.emplace_back([this] { work(); });
}

Scheduler::~Scheduler() { close(); }

bool Scheduler::submit(std::unique_ptr<InferRequest>& request, int64_t rows, InferDone& done) {
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  Batch batch(1);
  batch[0] = {.request = std::move(request), .done = std::move(done), .rows = rows};
  BatchQueue::Entry& entry = batch[0];
  try {
    if (runs_inline_ && running_ == 0 && queue_.empty()) {
      entry.queued = Clock::now();
      run(take_engine(), std::move(batch), lock);
      return true;
    }
    queue_.push(entry, Clock::now());
  } catch (const Error& error) {
    lock.unlock();
    count_failure(error.code());
    entry.done(error);
    return true;
  }
  lock.unlock();
  changed_.notify_one();
  return true;
}

void Scheduler::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    BatchQueue::Next next;
    std::unique_ptr<Engine> engine;
    if (!idle_.empty()) next = queue_.next(Clock::now(), closed_);
    if (!next.batch.empty()) engine = take_engine();
    if (!next.expired.empty()) {
      lock.unlock();
      fail(next.expired);
      lock.lock();
    }
    const bool ran = engine != nullptr;
    if (ran) run(std::move(engine), std::move(next.batch), lock);
    if (ran || !next.expired.empty()) continue;  // the queue may have changed meanwhile
    if (closed_ && queue_.empty()) return;
    if (next.wake) {
      changed_.wait_until(lock, *next.wake);
    } else {
      changed_.wait(lock);
    }
  }
}

std::unique_ptr<Engine> Scheduler::take_engine() {
  std::unique_ptr<Engine> engine = std::move(idle_.back());
  idle_.pop_back();
  ++running_;
  return engine;
}

void Scheduler::run(std::unique_ptr<Engine> engine, Batch batch,
                    std::unique_lock<std::mutex>& lock) {
  const bool more = !queue_.empty();
  lock.unlock();
  if (more) changed_.notify_one();

  std::vector<EngineTask> tasks;
  tasks.reserve(batch.size());
  for (const auto& entry : batch)
    tasks.push_back({.request = entry.request.get(), .rows = entry.rows});
  EngineTimes times;
  engine->run(tasks, times);
  finish(batch, tasks, times);

  lock.lock();
  --running_;
  idle_.push_back(std::move(engine));
  if (!queue_.empty() || closed_) changed_.notify_all();
}

void Scheduler::finish(Batch& batch, std::vector<EngineTask>& tasks, const EngineTimes& times) {
  for (size_t i = 0; i < batch.size(); ++i) {
    try {
      if (!tasks[i].error) choose_outputs(*batch[i].request, tasks[i].outputs);
    } catch (const Error& error) {
      tasks[i].error = error;
    }
  }
  record(batch, tasks, times);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (tasks[i].error) {
      batch[i].done(*tasks[i].error);
    } else {
      batch[i].done(
          InferResponse{name_, version_, batch[i].request->id, std::move(tasks[i].outputs)});
    }
  }
}

void Scheduler::fail(Batch& entries) {
  for (BatchQueue::Entry& entry : entries) {
    const Error error =
        is_cancelled(*entry.request)
            ? Error(ErrorCode::kCancelled, "the request was cancelled")
            : Error(ErrorCode::kUnavailable, "Request timeout expired in the queue");
    count_failure(error.code());
    entry.done(error);
  }
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
