// comm/thread_meeting.h - where ranks that are threads of one process meet in an exchange.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace emblem {

namespace cuda {
class RankStream;
}

// What a rank shows the others in an exchange.
struct PostedPieces {
  std::span<const Piece> send;  // by rank
  Device device = Device::kCpu;
  cuda::RankStream* stream = nullptr;  // on a GPU
};

// An exchange is arrive(), copying what the others have posted, finish(). Thread-safe.
class ThreadMeeting {
 public:
  // A rank for each of `hosts`, the name of its host.
  ThreadMeeting(const std::vector<std::string>& hosts, double collective_seconds);

  int size() const { return static_cast<int>(hosts_.size()); }
  const std::vector<RankHost>& hosts() const { return hosts_; }

  // Returns when all ranks have posted what they send. Throws RankError when a rank has failed, and
  // Error (kUnavailable) after the time limit.
  void arrive(int rank, const PostedPieces& posted);
  // What a rank has posted. Between arrive() and finish().
  const PostedPieces& posted(size_t rank) const { return posted_[rank]; }
  // Returns when all ranks have called it: what was posted is not used any more.
  void finish();

  void fail(int rank, const std::string& reason);
  void check() const;

  // Of a rank's exchanges on a GPU; it lives as long as the meeting, since others wait for it after
  // the rank has left. Null until the rank sets it.
  std::shared_ptr<cuda::RankStream>& stream(int rank) {
    return streams_[static_cast<size_t>(rank)];
  }

 private:
  void spin_while(const std::atomic<uint64_t>& counter, uint64_t value) const;
  void throw_failure() const;
  std::string timeout_message() const;

  const std::chrono::duration<double> limit_;
  const std::chrono::nanoseconds spinning_;
  std::vector<RankHost> hosts_;
  std::vector<std::shared_ptr<cuda::RankStream>> streams_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RankError> failure_;
  std::vector<PostedPieces> posted_;
  std::vector<bool> has_arrived_;
  int arrived_ = 0, finished_ = 0;
  // Exchanges in which all have arrived, and in which all have finished.
  std::atomic<uint64_t> begun_{0}, completed_{0};
};

}  // namespace emblem
