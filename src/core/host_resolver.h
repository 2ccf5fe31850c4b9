// core/host_resolver.h - the addresses of a host, by a deadline.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace emblem {

using Deadline = std::chrono::steady_clock::time_point;

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

}  // namespace emblem
