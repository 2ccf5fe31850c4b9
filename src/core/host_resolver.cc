#include "core/host_resolver.h"

#include <netdb.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "core/caught_error.h"
#include "core/start_thread.h"

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

}  // namespace

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

}  // namespace emblem
