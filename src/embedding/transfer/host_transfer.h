// embedding/transfer/host_transfer.h - host threads that carry rows between their places in host
// memory, anywhere in many gigabytes, and small buffers ("buffers") that the GPU reads and writes
// at the full rate of the bus. Kernels ask for it while they run; neither side calls the other.
//
// A kernel numbers the requests of its staging in device memory, writes request n to place n %
// kMostRequests, and last n + 1 to its `number` (release). The host_transfer serves a staging in
// order, and then moves `done` on (release). Lists and buffers are written again only when the
// requests on them are done; then the places of those requests are free, too. Scatters may be
// pending when a kernel ends: they are counted for each table, and whoever reads or writes its rows
// in host memory, by itself or through the host_transfer, first waits until there are none.
//
// No deadlock: the host_transfer waits for nobody and never calls CUDA. Kernels wait for requests
// that are published, or for warps of their own cooperative grid, which all run and wait for
// nothing else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/thread_pool.h"
#include "embedding/transfer/transfer_queue.h"

namespace emblem {

// Thread-safe.
class HostTransfer {
 public:
  explicit HostTransfer(int threads);
  ~HostTransfer();
  HostTransfer(const HostTransfer&) = delete;
  HostTransfer& operator=(const HostTransfer&) = delete;

  // The one of this process, as long as somebody has it; null with so few CPUs that it would not
  // help.
  static std::shared_ptr<HostTransfer> of_process();

  void add(const StagingMemory& staging);
  // Serves what the staging has been asked for before.
  void remove(const StagingMemory& staging);
  // Serves what all buffers have been asked for.
  void finish();
  uint64_t served() const { return served_; }  // requests

 private:
  void lead();
  bool serve_any();
  bool serve(const StagingMemory& staging);

  ThreadPool pool_;
  std::mutex mutex_;  // of serving, and of the buffers
  std::condition_variable changed_;
  std::atomic<int> visitors_{0};  // before whom the leader steps back
  std::vector<StagingMemory> buffers_;
  std::atomic<uint64_t> served_{0};
  bool stop_ = false;
  std::thread leader_;
};

// Waits until the process's host_transfer, if there is one, has done what kernels that have ended
// asked for.
void finish_host_transfers();

}  // namespace emblem
