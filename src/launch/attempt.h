// launch/attempt.h - all ranks of a job, started once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/rank_process.h"
#include "launch/signal_pipe.h"

namespace emblem {

struct AttemptSettings {
  std::vector<RankSeat> seats;
  std::function<RankCommand(const RankSeat&)> command;
  RemoteShell remote;
  std::string log_folder;  // "": no log files
  LogFile log = LogFile::kNew;
  double end_seconds = 5;  // for the other ranks to end by themselves after a failure
};

enum class AttemptEnd { kSucceeded, kFailed, kInterrupted };

struct AttemptResult {
  AttemptEnd end = AttemptEnd::kSucceeded;
  int signal = 0;  // that interrupted it
  // Of a failure:
  LostRanks lost;
  std::string failure;  // "rank 2 of 4 (host b): exit status 1"
  std::chrono::steady_clock::time_point failed_at;
  double seconds = 0;          // from the start to the failure
  bool is_same_error = false;  // all ranks ended with the same status and message
  bool is_bad_usage = false;   // a rank ended with the exit status of invalid options
  bool port_was_taken = false;
};

// Runs until all ranks have ended. After a failure the others get `end_seconds`, then SIGTERM, then
// SIGKILL. A request to stop (SIGINT, SIGTERM) is passed on to all ranks; the second one kills
// them. Throws where a rank cannot be started on this machine; all others have ended then.
AttemptResult run_attempt(const AttemptSettings& settings, SignalPipe& signals, Guard& guard);

}  // namespace emblem
