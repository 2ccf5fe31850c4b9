#include "core/tcp_connect.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emblem/error.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLongestHeadStart{250};  // of an address before the next is tried

// Attempts to connect that are under way.
class Attempts {
 public:
  ~Attempts() {
    for (const pollfd& one : pending_) close(one.fd);
  }

  bool none() const { return pending_.empty(); }
  const std::string& reason() const { return reason_; }

  // The socket when it connects at once, else -1.
  int start(const SocketAddress& address) {
    pending_.reserve(pending_.size() + 1);
    const int fd =
        socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
      reason_ = std::strerror(errno);
      return -1;
    }
    const auto* to = reinterpret_cast<const sockaddr*>(&address.bytes);
    if (connect(fd, to, address.size) == 0) return fd;
    if (errno == EINPROGRESS || errno == EINTR) {
      pending_.push_back({fd, POLLOUT, 0});
    } else {
      reason_ = std::strerror(errno);
      close(fd);
    }
    return -1;
  }

  // The first socket that connects before `until`, else -1: also when an attempt failed.
  int wait(Clock::time_point until) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (poll(pending_.data(), pending_.size(), static_cast<int>(std::max<int64_t>(0, left))) <= 0)
      return -1;
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (pending_[i].revents == 0) continue;
      const int fd = pending_[i].fd;
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0) return fd;
      reason_ = std::strerror(error);
      close(fd);
      return -1;
    }
    return -1;
  }

 private:
  std::vector<pollfd> pending_;
  std::string reason_ = "timed out";
};

}  // namespace

int connect_first(std::span<const SocketAddress> addresses, Deadline deadline) {
  Attempts attempts;
  size_t next = 0;
  auto next_start = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    if (next < addresses.size() && (attempts.none() || now >= next_start)) {
      const auto share = (deadline - now) / static_cast<int64_t>(addresses.size() - next);
      next_start = now + std::clamp<Clock::duration>(share, milliseconds(0), kLongestHeadStart);
      const int fd = attempts.start(addresses[next++]);
      if (fd >= 0) return fd;
      continue;
    }
    if (attempts.none()) throw Error(ErrorCode::kUnavailable, attempts.reason());
    if (now >= deadline) throw Error(ErrorCode::kUnavailable, "timed out");
    const int fd =
        attempts.wait(next < addresses.size() ? std::min(deadline, next_start) : deadline);
    if (fd >= 0) return fd;
  }
}

}  // namespace emblem
