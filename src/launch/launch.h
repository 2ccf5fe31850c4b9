// launch/launch.h - `emblem launch`: starts the ranks of a job, and starts them again after a
// failure.
#pragma once

#include <string>
#include <vector>

namespace emblem {

// Reads a command (launch/rank_command.h) from stdin and runs it; its output is that of this
// process. Then stdin has lines "signal N" for it. Its end, a signal to this process or a failure
// here ends the rank: first by SIGTERM, after 5 s by SIGKILL. Returns its exit status, or 128 + the
// signal that killed it.
int supervise();

struct LaunchOptions {
  int ranks = 0;                   // 0: as many as the hosts have
  std::vector<std::string> hosts;  // HOST or HOST:RANKS; empty: this machine
  int restarts = 0;
  int least_ranks = 0;     // 0: all
  std::string rendezvous;  // HOST:PORT of rank 0; "": its host and a free port
  std::string ssh;         // program and options, separated by spaces; "": ssh with short timeouts
  std::string log_folder;
  double end_seconds = 5;            // for other ranks to end by themselves after a failure
  std::string program;               // "": emblem itself
  std::vector<std::string> command;  // the arguments of the program
};

// Returns 0 when all ranks have succeeded, and 128 + the signal when it was interrupted. Throws
// kInvalidArgument for options that contradict each other, and kUnavailable with the rank that
// failed.
int launch(const LaunchOptions& options);

// The arguments of the program for this attempt: `train` continues when it is started again.
std::vector<std::string> arguments_of_attempt(const LaunchOptions& options, int restarts);

// The pause before restart 1, 2, 3, ...: 1, 2, 4, ... up to 30 s.
double seconds_before_restart(int restart);

}  // namespace emblem
