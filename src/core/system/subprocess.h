// core/system/subprocess.h - other programs as children of this process: started, run until they
// end or a timeout, or next to this one.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/files/file_descriptor.h"

namespace emblem {

struct Spawn {
  std::vector<std::string> arguments;  // the program first: a path, or a name to look up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::vector<std::string> removed;                              // variables it does not inherit
  std::string folder;        // where it runs; empty: where this process does
  int input = -1;            // its stdin; -1: empty
  int output, error_output;  // its stdout and stderr
};

inline constexpr int kStatusOfSignal = 128;  // what shells add to the signal that ended a command

struct ProcessEnd {
  int exit_status = 0;  // where `signal` is 0
  int signal = 0;       // that killed it

  bool failed() const { return exit_status != 0 || signal != 0; }
};
std::string to_text(const ProcessEnd& end);  // "exit status 1", "killed by signal 9 (Killed)"

// A program that leads a session and a process group of its own, without a terminal, and is killed
// when the thread that started it ends. No descriptor is inherited that has O_CLOEXEC. Used by one
// thread.
class ChildProcess {
 public:
  // Throws Error with the system's reason: "cannot start /x/emblem: No such file or directory".
  explicit ChildProcess(const Spawn& program);
  ~ChildProcess();  // kills its group
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  // Whether it waits for reap().
  bool has_ended() const;
  // Waits for its end. First what is left of its group is killed, then its process id is given
  // back: the id may belong to another afterwards. Once only.
  ProcessEnd reap(rusage* usage = nullptr);
  // To its whole group.
  void send_signal(int signal) const;

 private:
  pid_t id_;
  bool is_reaped_ = false;
};

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
  kInterrupted  // this process was asked to stop (core/system/interrupt.h), and stopped the other
};

struct SubprocessResult {
  SubprocessEnd end = SubprocessEnd::kExited;
  int status = 0;  // the exit status, or the number of the signal
  double seconds = 0;
  double cpu_seconds = 0;  // CPU time of it and of those it waited for
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

  bool is_running() const { return !is_reaped_ && !child_.has_ended(); }
  // Whether it ended within `seconds` (0: no limit), before this process was asked to stop.
  bool wait(double seconds) const;
  // Its whole group gets SIGTERM, then, after `grace_seconds`, SIGKILL; nothing where it has ended.
  // Once only.
  SubprocessResult stop(double grace_seconds);

 private:
  RunningSubprocess(const Subprocess& subprocess, const FileDescriptor& log);

  ChildProcess child_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool is_reaped_ = false;
};

}  // namespace emblem
