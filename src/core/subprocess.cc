#include "core/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/file_descriptor.h"
#include "core/interrupt.h"
#include "core/spawn.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(5);
constexpr double kGraceSeconds = 5;  // between SIGTERM and SIGKILL

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int open_log(const std::string& path) {
  const char* file = path.empty() ? "/dev/null" : path.c_str();
  const int log = ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot write ", file, ": ", std::strerror(errno)));
  return log;
}

// Waits for the end, at most `seconds` (0: no limit) and until an interruption. Whether it ended.
bool wait_for(pid_t child, double seconds, bool heed_interruption, int& status, rusage& usage) {
  const auto start = Clock::now();
  while (true) {
    const pid_t ended = wait4(child, &status, WNOHANG, &usage);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR)
      throw Error(ErrorCode::kInternal, cat("cannot wait for a process: ", std::strerror(errno)));
    if (seconds > 0 && seconds_since(start) >= seconds) return false;
    if (heed_interruption && interrupted()) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
}

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

std::string to_text(const SubprocessResult& result) {
  switch (result.end) {
    case SubprocessEnd::kExited:
      return cat("exit status ", result.status);
    case SubprocessEnd::kKilledBySignal:
      return cat("killed by signal ", result.status, " (", strsignal(result.status), ")");
    case SubprocessEnd::kTimedOut:
      return cat("timed out after ", format_duration(result.seconds));
    case SubprocessEnd::kInterrupted:
      return "interrupted";
  }
  return "";
}

struct RunningSubprocess::State {
  pid_t child = -1;
  Clock::time_point start;
  bool ended = false;
  int status = 0;
  rusage usage{};

  // Whether it has ended within `seconds` (0: no limit); see wait_for.
  bool wait(double seconds, bool heed_interruption) {
    ended = ended || wait_for(child, seconds, heed_interruption, status, usage);
    return ended;
  }
  SubprocessResult stop(double grace_seconds);
};

SubprocessResult RunningSubprocess::State::stop(double grace_seconds) {
  if (!ended) {
    kill(-child, SIGTERM);
    if (!wait(grace_seconds, false)) {
      kill(-child, SIGKILL);
      wait(0, false);
    }
  }
  kill(-child, SIGKILL);  // processes that it started and did not wait for
  SubprocessResult result;
  result.seconds = seconds_since(start);
  result.cpu_seconds = to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
  result.peak_resident_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  result.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.end = SubprocessEnd::kKilledBySignal;
  return result;
}

RunningSubprocess::RunningSubprocess(const Subprocess& subprocess)
    : state_(std::make_unique<State>()) {
  const FileDescriptor log(open_log(subprocess.log));
  state_->start = Clock::now();
  state_->child = spawn({.arguments = subprocess.arguments,
                         .environment = subprocess.environment,
                         .removed = {},
                         .folder = "",
                         .output = log.get(),
                         .error_output = log.get()});
}

RunningSubprocess::~RunningSubprocess() {
  if (state_->child > 0) state_->stop(kGraceSeconds);
}

bool RunningSubprocess::is_running() { return !state_->wait(1e-9, false); }

bool RunningSubprocess::wait(double seconds) { return state_->wait(seconds, true); }

SubprocessResult RunningSubprocess::stop(double grace_seconds) {
  const SubprocessResult result = state_->stop(grace_seconds);
  state_->child = -1;
  return result;
}

SubprocessResult run_subprocess(const Subprocess& subprocess) {
  RunningSubprocess running(subprocess);
  const bool ended = running.wait(subprocess.timeout_seconds);
  SubprocessResult result = running.stop(kGraceSeconds);
  if (!ended) result.end = interrupted() ? SubprocessEnd::kInterrupted : SubprocessEnd::kTimedOut;
  return result;
}

}  // namespace emblem
