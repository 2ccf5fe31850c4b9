#include "core/system/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "core/files/file_descriptor.h"
#include "core/system/interrupt.h"
#include "core/system/pipe.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

// ---- starting ----

// Pointers for exec, which wants them to end with a null; `texts` must outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(const Spawn& program) {
  std::vector<std::string> all;
  for (const auto& [name, value] : program.environment) all.push_back(name + "=" + value);
  const auto is_replaced = [&](std::string_view name) {
    return std::any_of(program.environment.begin(), program.environment.end(),
                       [&](const auto& added) { return added.first == name; }) ||
           std::find(program.removed.begin(), program.removed.end(), name) != program.removed.end();
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!is_replaced(text.substr(0, text.find('=')))) all.emplace_back(text);
  }
  return all;
}

// What failed in the child before the program ran.
struct StartError {
  int error = 0;
  bool in_folder = false;  // could not change to it
};

// The child writes to it when exec fails; exec itself closes it, so that the parent reads nothing
// when the program was started.
struct StartErrors {
  std::optional<StartError> wait() {
    pipe.writer.close();
    StartError error;
    ssize_t got = 0;
    do got = ::read(pipe.reader.get(), &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    return got == sizeof(error) ? std::optional(error) : std::nullopt;
  }
  Pipe pipe = make_pipe();
};

// Moves a descriptor above those of stdin, stdout and stderr, which dup2 will replace.
int above_standard(int descriptor) {
  return descriptor > STDERR_FILENO ? descriptor : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

// Runs between fork and exec: nothing but system calls. Never returns.
[[noreturn]] void become(const Spawn& program, char** arguments, char** environment, int errors,
                         pid_t parent) {
  const auto fail = [errors](bool in_folder) {
    const StartError error{errno, in_folder};
    [[maybe_unused]] const ssize_t written = ::write(errors, &error, sizeof(error));
    _exit(EXIT_FAILURE);
  };
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);  // it died before the line above
  const int input = above_standard(program.input >= 0 ? program.input
                                                      : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int output = above_standard(program.output);
  const int error_output = above_standard(program.error_output);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(error_output, STDERR_FILENO);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (!program.folder.empty() && chdir(program.folder.c_str()) != 0) fail(true);
  execvpe(arguments[0], arguments, environment);
  fail(false);
  _exit(EXIT_FAILURE);
}

pid_t spawn(const Spawn& program) {
  EMBLEM_REQUIRE(!program.arguments.empty(), "a subprocess has no program to run");
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> environment = environment_of(program);
  const std::vector<char*> argument_list = pointers_to(arguments);
  const std::vector<char*> environment_list = pointers_to(environment);
  StartErrors errors;
  const pid_t parent = getpid();
  const auto cannot_start = [&](int error) {
    return Error(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                 cat("cannot start ", arguments[0], ": ", std::strerror(error)));
  };
  const pid_t child = fork();
  if (child == 0)
    become(program, const_cast<char**>(argument_list.data()),
           const_cast<char**>(environment_list.data()), errors.pipe.writer.get(), parent);
  if (child < 0) throw cannot_start(errno);
  if (const auto failed = errors.wait()) {
    waitpid(child, nullptr, 0);
    if (!failed->in_folder) throw cannot_start(failed->error);
    throw Error(ErrorCode::kNotFound, cat("cannot start ", arguments[0], " in the folder ",
                                          program.folder, ": ", std::strerror(failed->error)));
  }
  return child;
}

// ---- running ----

constexpr auto kPollInterval = std::chrono::milliseconds(5);
constexpr double kGraceSeconds = 5;  // between SIGTERM and SIGKILL

FileDescriptor open_log(const std::string& path) {
  const char* file = path.empty() ? "/dev/null" : path.c_str();
  const int log = ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot write ", file, ": ", std::strerror(errno)));
  return FileDescriptor(log);
}

// Whether it ends within `seconds` (0: no limit) and before `is_given_up`.
template <class IsGivenUp>
bool ends_within(const ChildProcess& child, double seconds, IsGivenUp&& is_given_up) {
  const auto start = Clock::now();
  while (!child.has_ended()) {
    if ((seconds > 0 && seconds_since(start) >= seconds) || is_given_up()) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

std::string to_text(const ProcessEnd& end) {
  if (end.signal != 0)
    return cat("killed by signal ", end.signal, " (", strsignal(end.signal), ")");
  return cat("exit status ", end.exit_status);
}

std::string to_text(const SubprocessResult& result) {
  switch (result.end) {
    case SubprocessEnd::kExited:
      return to_text(ProcessEnd{.exit_status = result.status});
    case SubprocessEnd::kKilledBySignal:
      return to_text(ProcessEnd{.signal = result.status});
    case SubprocessEnd::kTimedOut:
      return cat("timed out after ", format_duration(result.seconds));
    case SubprocessEnd::kInterrupted:
      return "interrupted";
  }
  return "";
}

ChildProcess::ChildProcess(const Spawn& program) : id_(spawn(program)) {}

ChildProcess::~ChildProcess() {
  if (is_reaped_) return;
  send_signal(SIGKILL);
  reap();
}

bool ChildProcess::has_ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == id_;
}

ProcessEnd ChildProcess::reap(rusage* usage) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  kill(-id_, SIGKILL);  // processes that it started and did not wait for
  int status = 0;
  wait4(id_, &status, 0, usage);
  is_reaped_ = true;
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.exit_status = WEXITSTATUS(status)};
}

void ChildProcess::send_signal(int signal) const { kill(-id_, signal); }

RunningSubprocess::RunningSubprocess(const Subprocess& subprocess)
    : RunningSubprocess(subprocess, open_log(subprocess.log)) {}

RunningSubprocess::RunningSubprocess(const Subprocess& subprocess, const FileDescriptor& log)
    : child_({.arguments = subprocess.arguments,
              .environment = subprocess.environment,
              .removed = {},
              .folder = "",
              .output = log.get(),
              .error_output = log.get()}) {}

RunningSubprocess::~RunningSubprocess() {
  if (!is_reaped_) stop(kGraceSeconds);
}

bool RunningSubprocess::wait(double seconds) const {
  return ends_within(child_, seconds, [] { return interrupted(); });
}

SubprocessResult RunningSubprocess::stop(double grace_seconds) {
  if (!child_.has_ended()) {
    child_.send_signal(SIGTERM);
    if (!ends_within(child_, grace_seconds, [] { return false; })) child_.send_signal(SIGKILL);
  }
  rusage usage{};
  const ProcessEnd end = child_.reap(&usage);
  is_reaped_ = true;
  SubprocessResult result;
  result.end = end.signal != 0 ? SubprocessEnd::kKilledBySignal : SubprocessEnd::kExited;
  result.status = end.signal != 0 ? end.signal : end.exit_status;
  result.seconds = seconds_since(start_);
  result.cpu_seconds = to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
  result.peak_resident_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
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
