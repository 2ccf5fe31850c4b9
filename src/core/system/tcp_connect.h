// core/system/tcp_connect.h - the addresses of a host, and TCP connections to it, by a deadline.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/file_descriptor.h"

namespace emblem {

using Deadline = std::chrono::steady_clock::time_point;

// Milliseconds until the deadline for poll(): at least 0.
int poll_timeout(Deadline deadline);

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

// Throws kUnavailable when there is none. May block for as long as name servers take.
using ResolveHost = std::function<std::vector<SocketAddress>(const std::string& host, int port)>;
std::vector<SocketAddress> resolve_host(const std::string& host, int port);  // getaddrinfo

// Thread-safe. Names are looked up on threads of their own, one for each host and port at a time,
// since the system's resolver knows no deadline. Such a thread may outlive this object.
class HostResolver {
 public:
  explicit HostResolver(ResolveHost resolve = resolve_host);

  // Throws kUnavailable, also when `deadline` passes first. A numeric address needs no lookup.
  std::vector<SocketAddress> resolve(const std::string& host, int port, Deadline deadline);

 private:
  struct Lookup;
  struct State;
  std::shared_ptr<State> state_;
};

// A non-blocking socket, connected to the address that answered first; the caller closes it. Where
// one stays silent for a share of the time, the next is tried as well, so that a dead address does
// not use up the time of the others. Throws kUnavailable with the last reason.
int connect_first(std::span<const SocketAddress> addresses, Deadline deadline);

// The same for the addresses of `host`. Small packets are sent at once; a peer that has vanished is
// noticed (keepalive).
FileDescriptor connect_to(const std::string& host, int port, HostResolver& resolver,
                          Deadline deadline);

}  // namespace emblem
