#include "core/system/tcp_connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"
#include "emblem/error.h"

namespace emblem {
namespace {

[[noreturn]] void fail(const std::string& host, std::string_view reason) {
  throw Error(ErrorCode::kUnavailable, cat("finding the address of ", host, ": ", reason));
}

// Empty when `flags` exclude what would be needed.
std::vector<SocketAddress> ask_system(const std::string& host, int port, int flags, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.bytes, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
  }
  return addresses;
}

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLongestHeadStart{250};  // head start of an address before the next is tried

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
    if (poll(pending_.data(), pending_.size(), poll_timeout(until)) <= 0) return -1;
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

int poll_timeout(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT32_MAX));
}

std::vector<SocketAddress> resolve_host(const std::string& host, int port) {
  int error = 0;
  auto addresses = ask_system(host, port, 0, error);
  if (addresses.empty()) fail(host, error != 0 ? gai_strerror(error) : "it has none");
  return addresses;
}

struct HostResolver::Lookup {
  bool done = false;
  std::vector<SocketAddress> addresses;
  std::optional<Error> error;
};

struct HostResolver::State {
  ResolveHost resolve;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<std::string, int>, std::shared_ptr<Lookup>> under_way;
};

HostResolver::HostResolver(ResolveHost resolve) : state_(std::make_shared<State>()) {
  state_->resolve = std::move(resolve);
}

std::vector<SocketAddress> HostResolver::resolve(const std::string& host, int port,
                                                 Deadline deadline) {
  int ignored = 0;
  if (auto numeric = ask_system(host, port, AI_NUMERICHOST, ignored); !numeric.empty())
    return numeric;
  const std::pair key(host, port);
  std::unique_lock lock(state_->mutex);
  std::shared_ptr<Lookup>& shared = state_->under_way[key];
  if (shared == nullptr) {
    shared = std::make_shared<Lookup>();
    try {
      start_thread("looking up a host name", [state = state_, lookup = shared, key] {
        std::vector<SocketAddress> addresses;
        std::optional<Error> error;
        try {
          addresses = state->resolve(key.first, key.second);
        } catch (...) {
          error = caught_error();
        }
        std::lock_guard lock(state->mutex);
        lookup->addresses = std::move(addresses);
        lookup->error = std::move(error);
        lookup->done = true;
        state->under_way.erase(key);
        state->changed.notify_all();
      }).detach();
    } catch (...) {
      state_->under_way.erase(key);
      throw;
    }
  }
  const std::shared_ptr<Lookup> lookup = shared;
  if (!state_->changed.wait_until(lock, deadline, [&] { return lookup->done; }))
    fail(host, "timed out");
  if (lookup->error) throw Error(ErrorCode::kUnavailable, lookup->error->what());
  return lookup->addresses;
}

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

FileDescriptor connect_to(const std::string& host, int port, HostResolver& resolver,
                          Deadline deadline) {
  FileDescriptor socket(connect_first(resolver.resolve(host, port, deadline), deadline));
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  return socket;
}

}  // namespace emblem
