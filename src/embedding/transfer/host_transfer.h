// embedding/transfer/host_transfer.h - host threads that copy rows between their places in host
// memory, spread over many gigabytes, and small staging buffers that the GPU reads and writes at
// the full rate of the bus. Kernels request this while they run; neither side calls the other.
//
// A kernel numbers the requests of its staging buffer in device memory, writes request n to entry
// n % kMaxRequests of the queue, and last n + 1 to its `number` (release). The host threads serve a
// queue in order and then advance `done` (release). Lists and buffers are reused only when the
// requests on them are done; the entries of these requests are then free too. Scatters may be
// pending when a kernel ends. They are counted per table, and every reader or writer of rows in
// host memory first waits until none is pending.
//
// No deadlock: host threads wait for nothing and never call CUDA. Kernels wait for requests that
// are published, or for warps of their own cooperative grid, all of which are resident.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/threads/thread_pool.h"
#include "embedding/transfer/transfer_queue.h"

namespace emblem {

// Thread-safe.
class HostTransfer {
 public:
  // Throws kUnavailable when the threads cannot be started.
  explicit HostTransfer(int threads);
  ~HostTransfer();
  HostTransfer(const HostTransfer&) = delete;
  HostTransfer& operator=(const HostTransfer&) = delete;

  // The one of this process, which lives as long as it has users; null with too few CPUs to help.
  static std::shared_ptr<HostTransfer> of_process();

  void add(const StagingMemory& staging);
  // Serves what has been requested through the staging buffer, then forgets it.
  void remove(const StagingMemory& staging);
  // Serves what has been requested through all staging buffers.
  void finish();
  uint64_t served() const { return served_; }  // requests

 private:
  void poll_queues();
  bool serve_any();
  bool serve(const StagingMemory& staging);

  ThreadPool pool_;
  std::mutex mutex_;  // guards serving and the buffers
  std::condition_variable changed_;
  std::atomic<int> callers_{0};  // that wait for the mutex: the polling thread lets them go first
  std::vector<StagingMemory> buffers_;
  std::atomic<uint64_t> served_{0};
  bool stop_ = false;
  std::thread poller_;
};

// Waits until all requests of kernels that have ended are served, if this process has a
// HostTransfer.
void finish_host_transfers();

}  // namespace emblem
