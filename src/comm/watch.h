// comm/watch.h - a thread that notices when a rank of the job has failed, and tells all others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/tcp/message.h"
#include "core/files/file_descriptor.h"

namespace emblem {

struct WatchSettings {
  double heartbeat_seconds = 1;
  double silence_seconds = 9;  // without a heartbeat a rank is given up
  double leave_seconds = 5;    // for others to leave, too
  // Called once, by the thread of the watch, with the line of the failure, in a process that is
  // still in the job `stuck_seconds` after it: another thread hangs where it does not look, for
  // example in a call of a library. It may end the process, or the call. Empty: nothing is done.
  std::function<void(const std::string& failure)> on_stuck;
  double stuck_seconds = 5;
};

// Rank 0 is connected with all others, which hear of failures through it. A closed connection is
// noticed at once, a process or host that stands still by missing heartbeats. Rank 0 decides which
// failure counts: others report to it and wait for its verdict, so that two ranks that lost each
// other do not both count as failed. Thread-safe.
class Watch {
 public:
  // `control`: as Membership::control.
  Watch(int rank, const std::vector<RankHost>& hosts, std::vector<FileDescriptor> control,
        const WatchSettings& settings);
  ~Watch();  // without leave(): the connections are closed after what is known was sent
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Throws RankError when a rank has failed.
  void check() const;
  // Readable from the first failure on.
  int failure_fd() const { return failed_.get(); }
  // Reports that `rank` has failed, unless a failure is known; all ranks are told. Does not wait.
  void fail(int rank, const std::string& reason);
  // The same, then waits for the verdict and throws it as RankError.
  [[noreturn]] void throw_failure(int rank, const std::string& reason);
  // The same for a rank whose data connection ended: its own report counts more than that. Waits
  // for it for a second before it reports `reason`.
  [[noreturn]] void throw_lost(int rank, const std::string& reason);
  // Says goodbye and waits, not longer than leave_seconds, until the others do or one fails.
  void leave();

 private:
  struct Peer;
  void run();
  void wait_for_events();
  void read_from(Peer& peer);
  void handle(Peer& peer, const Message& message);
  void send_heartbeats();
  void judge_silence();
  void adopt_report();
  void announce();
  bool has_left();
  void report_if_stuck();
  void send(Peer& peer, const std::string& message);
  void wake() const;
  std::string name(int rank) const;

  const int rank_;
  const std::vector<RankHost> hosts_;
  const WatchSettings settings_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::optional<Failure> report_;  // report of this rank to rank 0, before its verdict
  std::chrono::steady_clock::time_point verdict_by_{};
  bool is_leaving_ = false, is_ending_ = false;

  FileDescriptor failed_, commands_;  // eventfd

  // Used by the thread alone.
  std::vector<std::unique_ptr<Peer>> peers_;
  std::chrono::steady_clock::time_point next_heartbeat_{}, last_round_{}, failed_at_{}, leave_by_{};
  bool has_reported_ = false, has_announced_ = false, has_sent_goodbye_ = false,
       has_reported_stuck_ = false;

  std::thread thread_;
};

}  // namespace emblem
