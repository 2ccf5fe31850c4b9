#include "launch/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/system/pipe.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kMostGroups = 4096;

// The life of the guard: nothing but system calls. A message is a group to watch, or the negative
// of one to forget; the end of the pipe is the end of the process that started it.
[[noreturn]] void guard(int messages) {
  setsid();  // Ctrl-C and a closed terminal are for the other process
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(ignored, SIG_IGN);
  pid_t groups[kMostGroups];
  size_t count = 0;
  while (true) {
    pid_t message = 0;
    const ssize_t got = ::read(messages, &message, sizeof(message));
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(message)) break;
    if (message > 0 && count < kMostGroups) groups[count++] = message;
    for (size_t i = 0; message < 0 && i < count; ++i)
      if (groups[i] == -message) groups[i--] = groups[--count];
  }
  for (size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

Guard::Guard() {
  Pipe messages = make_pipe();
  const FileDescriptor reader = std::move(messages.reader);
  to_guard_ = std::move(messages.writer);
  process_ = fork();
  if (process_ < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot start a process: ", std::strerror(errno)));
  if (process_ > 0) return;
  to_guard_.close();
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(standard);
  guard(reader.get());
}

Guard::~Guard() {
  to_guard_.close();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::send(pid_t message) {
  while (::write(to_guard_.get(), &message, sizeof(message)) < 0 && errno == EINTR) {
  }
}

void Guard::watch(pid_t group) { send(group); }

void Guard::forget(pid_t group) { send(-group); }

}  // namespace emblem
