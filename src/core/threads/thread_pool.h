// core/threads/thread_pool.h - the threads that CPU kernels share.
//
// Work is cut into chunks whose borders depend on the size alone, never on the number of threads,
// so a kernel that writes disjoint outputs per chunk gives the same bytes with any number of
// threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/device/context.h"
#include "core/threads/start_threads.h"

namespace emblem {

// What threads are for, in the message when they cannot be started.
struct ThreadPurpose {
  const char* name;
  const char* advice;
};
inline constexpr ThreadPurpose kComputeThreads = {"compute", "use --threads N with a smaller N"};

// Runs chunks on `threads` threads, the caller being one of them. One parallel_for at a time:
// calls from several threads at once are not allowed, nested calls run on the calling thread.
class ThreadPool {
 public:
  // Throws kUnavailable when the threads cannot be started; `purpose` is for its message.
  explicit ThreadPool(int threads, const ThreadPurpose& purpose = kComputeThreads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(argument, chunk) once for each chunk in [0, chunks), chunks < 2^32, in any order,
  // and returns when all are done. The first exception thrown by a chunk is rethrown here.
  void run(int64_t chunks, void (*body)(void*, int64_t), void* argument);

 private:
  void work();
  void stop();
  void take_chunks(uint64_t job);
  void finish_chunk(int64_t chunk);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stop_{false};

  // The number of the job (high half) and its next chunk (low half) in one word: a thread that
  // claims a chunk knows that the job is still running, so a worker that wakes late is harmless and
  // no thread waits for it.
  std::atomic<uint64_t> claim_{0};
  std::atomic<int64_t> unfinished_{0};  // chunks of the current job
  std::atomic<int64_t> chunks_{0};
  std::atomic<void (*)(void*, int64_t)> body_{nullptr};
  std::atomic<void*> argument_{nullptr};
  std::exception_ptr error_;
  std::mutex error_mutex_;
};

// The number of CPUs this process may use.
int available_cpus();

// Calls body(begin, end) for consecutive ranges of at most `grain` items that cover [0, count).
template <class Body>
void parallel_for(const Context& context, int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  const int64_t chunks = (count + grain - 1) / grain;
  auto one = [&](int64_t chunk) {
    const int64_t begin = chunk * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  };
  if (context.threads == nullptr || chunks == 1) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) one(chunk);
    return;
  }
  using One = decltype(one);
  context.threads->run(
      chunks, [](void* argument, int64_t chunk) { (*static_cast<One*>(argument))(chunk); }, &one);
}

}  // namespace emblem
