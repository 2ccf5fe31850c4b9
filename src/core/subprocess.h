// core/subprocess.h - runs another program until it ends or a timeout, or next to this one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace emblem {

struct Subprocess {
  std::vector<std::string> arguments;  // the program first: a path, or a name to look up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::string log;             // file for stdout and stderr; empty: they are discarded
  double timeout_seconds = 0;  // 0: none
};

enum class SubprocessEnd {
  kExited,
  kKilledBySignal,
  kTimedOut,
  kInterrupted  // this process was asked to stop (core/interrupt.h), and stopped the other
};

struct SubprocessResult {
  SubprocessEnd end = SubprocessEnd::kExited;
  int status = 0;  // the exit status, or the number of the signal
  double seconds = 0;
  double cpu_seconds = 0;  // of it and of those it waited for
  int64_t peak_resident_bytes = 0;

  bool succeeded() const { return end == SubprocessEnd::kExited && status == 0; }
};

// "exit status 1", "killed by signal 11 (Segmentation fault)", "timed out after 20 s",
// "interrupted"
std::string to_text(const SubprocessResult& result);

// The program's stdin is empty, it has a process group of its own, and it is killed when this
// process ends. At a timeout or an interruption its whole group gets SIGTERM, then SIGKILL. Throws
// Error with the system's reason when it cannot be started: "cannot start /x/emblem: No such file
// or directory".
SubprocessResult run_subprocess(const Subprocess& subprocess);

// A program that runs next to this one, started as by run_subprocess. Used by one thread.
class RunningSubprocess {
 public:
  explicit RunningSubprocess(const Subprocess& subprocess);
  ~RunningSubprocess();  // stops it
  RunningSubprocess(const RunningSubprocess&) = delete;
  RunningSubprocess& operator=(const RunningSubprocess&) = delete;

  bool is_running();
  // Whether it ended within `seconds` (0: no limit), before this process was asked to stop.
  bool wait(double seconds);
  // Its whole group gets SIGTERM, then, after `grace_seconds`, SIGKILL; nothing where it has ended.
  SubprocessResult stop(double grace_seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
