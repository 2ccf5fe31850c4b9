#include "launch/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/system/log.h"
#include "core/system/pipe.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// A pipe that is ready takes this much without blocking.
constexpr size_t kPipePiece = 4096;
constexpr int kFullMs = 100;  // between looks at signals while the reader is slow

[[noreturn]] void unavailable(const std::string& what) {
  throw Error(ErrorCode::kUnavailable, cat(what, ": ", std::strerror(errno)));
}

void set_nonblocking(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// A terminal that passes bytes on as they are and has the size of `like`. No reader: there is none.
Pipe make_terminal(int like) {
  Pipe pair;
  pair.reader = FileDescriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (pair.reader.get() < 0 || grantpt(pair.reader.get()) != 0 || unlockpt(pair.reader.get()) != 0)
    return {};
  char name[128];
  if (ptsname_r(pair.reader.get(), name, sizeof(name)) != 0) return {};
  pair.writer = FileDescriptor(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  winsize size{};
  if (pair.writer.get() < 0 || tcgetattr(pair.writer.get(), &settings) != 0) return {};
  cfmakeraw(&settings);
  tcsetattr(pair.writer.get(), TCSANOW, &settings);
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(pair.writer.get(), TIOCSWINSZ, &size);
  set_nonblocking(pair.reader.get());
  return pair;
}

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

RankOutput::RankOutput(int rank, Console& console, const std::string& log_folder, LogFile log)
    : rank_(rank), prefix_(rank == 0 ? "" : cat("rank ", rank, ": ")), console_(console) {
  if (log_folder.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(log_folder, ignored);
  log_path_ = cat(log_folder, "/rank-", rank, ".log");
  log_ = FileDescriptor(
      ::open(log_path_.c_str(),
             O_WRONLY | O_CREAT | O_CLOEXEC | (log == LogFile::kNew ? O_TRUNC : O_APPEND), 0644));
  if (log_.get() < 0) unavailable(cat("cannot write ", log_path_));
}

RankOutput::~RankOutput() = default;

FileDescriptor RankOutput::open(Stream& stream) {
  Pipe pair;
  if (rank_ == 0 && isatty(stream.to) == 1) pair = make_terminal(stream.to);
  stream.is_terminal = pair.reader.get() >= 0;
  if (!stream.is_terminal) {
    pair = make_pipe();
    set_nonblocking(pair.reader.get());
  }
  stream.descriptor = std::move(pair.reader);
  return std::move(pair.writer);
}

RankOutput::Ends RankOutput::open() {
  Ends ends;
  ends.output = open(output_);
  ends.error_output = open(errors_);
  return ends;
}

void RankOutput::write_log(std::string_view line) {
  if (log_.get() < 0) return;
  std::string text(line);
  text += '\n';
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(log_.get(), rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      log_warn(cat("cannot write ", log_path_, ": ", std::strerror(errno), "; it ends here"));
      log_.close();
      return;
    }
  }
}

void RankOutput::take_line(const Stream& stream, std::string_view line, LineEnd end) {
  if (&stream == &errors_) {
    if (line == kStartedLine && !has_connected_) {
      has_connected_ = true;
      return;
    }
    if (!line.empty()) last_error_line_ = line;
    if (line.find(std::strerror(EADDRINUSE)) != std::string_view::npos) mentions_used_port_ = true;
  }
  if (!stream.is_terminal) {
    if (rank_ == 0)
      console_.write_raw(stream.to, cat(line, end == LineEnd::kNewline ? "\n" : ""));
    else
      console_.write_line(stream.to, prefix_ + std::string(line));
  }
  write_log(line);
}

void RankOutput::take(Stream& stream, std::string_view bytes) {
  if (stream.is_terminal) console_.write_raw(stream.to, bytes);
  stream.lines.add(bytes,
                   [&](std::string_view line, LineEnd end) { take_line(stream, line, end); });
}

void RankOutput::take_available(Stream& stream) {
  constexpr int kMostReads = 64;  // a rank that prints without end does not keep others waiting
  char bytes[16384];
  for (int i = 0; i < kMostReads && stream.descriptor.get() >= 0; ++i) {
    const ssize_t got = ::read(stream.descriptor.get(), bytes, sizeof(bytes));
    if (got > 0) {
      take(stream, {bytes, static_cast<size_t>(got)});
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      return;
    } else {  // the end; a terminal says EIO
      stream.descriptor.close();
    }
  }
}

void RankOutput::take_available() {
  take_available(output_);
  take_available(errors_);
}

void RankOutput::finish() {
  for (Stream* stream : {&output_, &errors_}) {
    take_available(*stream);
    stream->descriptor.close();
    stream->lines.finish(
        [&](std::string_view line, LineEnd end) { take_line(*stream, line, end); });
  }
}

}  // namespace emblem
