#include "launch/console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// A pipe that is ready takes this much without blocking.
constexpr size_t kPipePiece = 4096;
constexpr int kFullMs = 100;  // between looks at signals while the reader is slow

}  // namespace

void Console::write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty() && !is_closed_[descriptor]) {
    while_full_();
    pollfd ready{descriptor, POLLOUT, 0};
    if (poll(&ready, 1, kFullMs) <= 0) continue;
    const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), kPipePiece));
    if (written >= 0)
      bytes.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR && errno != EAGAIN)
      give_up(descriptor);
  }
}

void Console::give_up(int descriptor) {
  is_closed_[descriptor] = true;
  if (errno != EPIPE && descriptor == STDOUT_FILENO)
    log_warn(cat("cannot write standard output: ", std::strerror(errno), "; the rest is lost"));
}

void Console::end_open_lines(int descriptor) {
  const bool is_terminal = isatty(descriptor) == 1;
  for (const int other : {STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_same_place = other == descriptor || (is_terminal && isatty(other) == 1);
    if (!is_open_[other] || !is_same_place) continue;
    is_open_[other] = false;
    write_all(other, is_terminal && other == STDERR_FILENO ? "\r\033[K" : "\n");
  }
}

void Console::write_line(int descriptor, std::string_view line) {
  end_open_lines(descriptor);
  write_all(descriptor, std::string(line) + "\n");
}

void Console::write_raw(int descriptor, std::string_view bytes) {
  if (bytes.empty()) return;
  write_all(descriptor, bytes);
  is_open_[descriptor] = bytes.back() != '\n';
}

}  // namespace emblem
