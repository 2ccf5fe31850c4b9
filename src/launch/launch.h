// launch/launch.h - `emblem launch`: starts the ranks of a job, and starts them again after a
// failure.
#pragma once

#include <string>
#include <vector>

namespace emblem {

struct LaunchOptions {
  int ranks = 0;                   // 0: as many as the hosts have
  std::vector<std::string> hosts;  // HOST or HOST:RANKS; empty: this machine
  int restarts = 0;
  int least_ranks = 0;  // 0: all
  std::string meet;     // HOST:PORT of rank 0; "": its host and a free port
  std::string ssh;      // program and options, separated by spaces; "": ssh with short timeouts
  std::string log_folder;
  double end_seconds = 5;            // for other ranks to end by themselves after a failure
  std::string program;               // "": emblem itself
  std::vector<std::string> command;  // the arguments of the program
};

// Returns 0 when all ranks have succeeded, and 128 + the signal when it was interrupted. Throws
// kInvalidArgument for options that do not go together, and kUnavailable with the rank that failed.
int launch(const LaunchOptions& options);

// The arguments of the program for this attempt: `train` continues when it is started again.
std::vector<std::string> arguments_of_attempt(const LaunchOptions& options, int restarts);

// Before restart 1, 2, 3, ...: 1, 2, 4, ... up to 30 s.
double seconds_before_restart(int restart);

}  // namespace emblem
