#include "core/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/interrupt.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(5);
constexpr double kGraceSeconds = 5;  // between SIGTERM and SIGKILL
constexpr int kCannotStart = 127;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Pointers for exec, which wants them to end with a null; `texts` must outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> all;
  for (const auto& [name, value] : additions) all.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = [&] {
      for (const auto& [name, value] : additions)
        if (text.starts_with(name + "=")) return true;
      return false;
    }();
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

int open_log(const std::string& path) {
  const char* file = path.empty() ? "/dev/null" : path.c_str();
  const int log = ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot write ", file, ": ", std::strerror(errno)));
  return log;
}

// Between fork and exec: nothing but system calls. Never returns.
[[noreturn]] void become(char** arguments, char** environment, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kCannotStart);  // which died before the line above
  const int nothing = ::open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  execvpe(arguments[0], arguments, environment);
  _exit(kCannotStart);
}

// Waits for the end, but not beyond `seconds` (0: for ever) or an interruption. Whether it ended.
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
      return cat("no end after ", format_duration(result.seconds));
    case SubprocessEnd::kInterrupted:
      return "interrupted";
  }
  return "";
}

SubprocessResult run_subprocess(const Subprocess& subprocess) {
  EMBLEM_REQUIRE(!subprocess.arguments.empty(), "run_subprocess: no program is named");
  std::vector<std::string> arguments = subprocess.arguments;
  std::vector<std::string> environment = environment_with(subprocess.environment);
  const std::vector<char*> argument_list = pointers_to(arguments);
  const std::vector<char*> environment_list = pointers_to(environment);
  const int log = open_log(subprocess.log);
  const pid_t parent = getpid();
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child == 0)
    become(const_cast<char**>(argument_list.data()), const_cast<char**>(environment_list.data()),
           log, parent);
  const int fork_error = errno;
  ::close(log);
  if (child < 0)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot start ", arguments[0], ": ", std::strerror(fork_error)));
  setpgid(child, child);  // here too: whoever comes first

  SubprocessResult result;
  int status = 0;
  rusage usage{};
  const bool ended = wait_for(child, subprocess.timeout_seconds, true, status, usage);
  if (!ended) {
    result.end = interrupted() ? SubprocessEnd::kInterrupted : SubprocessEnd::kTimedOut;
    kill(-child, SIGTERM);
    if (!wait_for(child, kGraceSeconds, false, status, usage)) {
      kill(-child, SIGKILL);
      wait_for(child, 0, false, status, usage);
    }
  }
  kill(-child, SIGKILL);  // what it may have left behind
  result.seconds = seconds_since(start);
  result.cpu_seconds = to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
  result.peak_resident_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  result.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  if (ended && WIFSIGNALED(status)) result.end = SubprocessEnd::kKilledBySignal;
  return result;
}

}  // namespace emblem
