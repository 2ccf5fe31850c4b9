#include "core/threads/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/memory/heap_account.h"

namespace emblem {
namespace {

// A step has a hundred short parallel regions: a worker waits this many turns before it sleeps, so
// that the next region finds it awake.
constexpr int kSpins = 4000;

constexpr uint64_t kChunkMask = 0xffffffffu;  // the low half of claim_

thread_local bool inside_parallel_region = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// What run() is given, and whose memory the chunks take.
struct CountedBody {
  void (*body)(void*, int64_t);
  void* argument;
  HeapAccount::Scope* scope;

  static void run(void* counted, int64_t chunk) {
    const auto& self = *static_cast<CountedBody*>(counted);
    const HeapAccount::Joined joined(self.scope);
    self.body(self.argument, chunk);
  }
};

}  // namespace

int available_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads, const ThreadPurpose& purpose) {
  EMBLEM_REQUIRE(threads >= 1, "a thread pool needs at least 1 thread, but ", threads,
                 " were requested");
  start_threads(
      workers_, threads - 1, cat(threads, " ", purpose.name, " threads"), purpose.advice,
      [this] { work(); }, [this] { stop(); });
}

ThreadPool::~ThreadPool() {
  stop();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
}

void ThreadPool::finish_chunk(int64_t chunk) {
  try {
    body_.load(std::memory_order_relaxed)(argument_.load(std::memory_order_relaxed), chunk);
  } catch (...) {
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
  unfinished_.fetch_sub(1, std::memory_order_release);
}

void ThreadPool::take_chunks(uint64_t job) {
  inside_parallel_region = true;
  const int64_t chunks = chunks_.load(std::memory_order_relaxed);
  uint64_t claim = claim_.load(std::memory_order_acquire);
  while (claim >> 32 == job && static_cast<int64_t>(claim & kChunkMask) < chunks) {
    if (!claim_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel)) continue;
    finish_chunk(static_cast<int64_t>(claim & kChunkMask));
    claim = claim_.load(std::memory_order_acquire);
  }
  inside_parallel_region = false;
}

void ThreadPool::work() {
  uint64_t seen = 0;
  const auto job = [&] { return claim_.load(std::memory_order_acquire) >> 32; };
  for (;;) {
    for (int spin = 0; spin < kSpins && job() == seen && !stop_; ++spin) pause();
    if (job() == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return job() != seen || stop_; });
    }
    if (stop_) return;
    seen = job();
    take_chunks(seen);
  }
}

void ThreadPool::run(int64_t chunks, void (*body)(void*, int64_t), void* argument) {
  if (workers_.empty() || inside_parallel_region) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(argument, chunk);
    return;
  }
  CountedBody counted{body, argument, HeapAccount::Scope::current()};
  // No chunk can be claimed while the job is being described: a worker that is late for the last
  // job would otherwise take the new number of chunks for the old one's.
  const uint64_t last = claim_.load(std::memory_order_relaxed) >> 32;
  claim_.exchange(((last + 1) << 32) | kChunkMask, std::memory_order_acq_rel);
  const uint64_t job = (last + 2) & kChunkMask;
  body_.store(&CountedBody::run, std::memory_order_relaxed);
  argument_.store(&counted, std::memory_order_relaxed);
  chunks_.store(chunks, std::memory_order_relaxed);
  unfinished_.store(chunks, std::memory_order_relaxed);
  error_ = nullptr;
  {
    std::lock_guard lock(mutex_);
    claim_.store(job << 32, std::memory_order_release);
  }
  wake_.notify_all();
  take_chunks(job);
  for (int spin = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins)
      pause();
    else
      std::this_thread::yield();
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace emblem
