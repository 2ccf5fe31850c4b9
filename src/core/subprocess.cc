#include "core/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "core/file_descriptor.h"
#include "core/interrupt.h"
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

// The child writes errno to it when exec fails; exec itself closes it, so that the parent reads
// nothing when the program was started.
struct StartErrors {
  StartErrors() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorCode::kUnavailable, cat("cannot create a pipe: ", std::strerror(errno)));
    reader.emplace(ends[0]);
    writer.emplace(ends[1]);
  }
  // 0 when the program was started.
  int wait() {
    writer->close();
    int error = 0;
    ssize_t got = 0;
    do got = ::read(reader->get(), &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    return got == sizeof(error) ? error : 0;
  }
  std::optional<FileDescriptor> reader, writer;
};

// Between fork and exec: nothing but system calls. Never returns.
[[noreturn]] void become(char** arguments, char** environment, int log, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);  // it died before the line above
  const int nothing = ::open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(errors, &error, sizeof(error));
  _exit(EXIT_FAILURE);
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
  EMBLEM_REQUIRE(!subprocess.arguments.empty(), "a subprocess has no program to run");
  std::vector<std::string> arguments = subprocess.arguments;
  std::vector<std::string> environment = environment_with(subprocess.environment);
  const std::vector<char*> argument_list = pointers_to(arguments);
  const std::vector<char*> environment_list = pointers_to(environment);
  FileDescriptor log(open_log(subprocess.log));
  StartErrors errors;
  const pid_t parent = getpid();
  state_->start = Clock::now();
  const auto cannot_start = [&](int error) {
    return Error(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                 cat("cannot start ", arguments[0], ": ", std::strerror(error)));
  };
  const pid_t child = fork();
  if (child == 0)
    become(const_cast<char**>(argument_list.data()), const_cast<char**>(environment_list.data()),
           log.get(), errors.writer->get(), parent);
  if (child < 0) throw cannot_start(errno);
  log.close();
  setpgid(child, child);  // in the child too: either may be the first
  if (const int error = errors.wait(); error != 0) {
    waitpid(child, nullptr, 0);
    throw cannot_start(error);
  }
  state_->child = child;
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
