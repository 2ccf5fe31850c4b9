#include "serve/net/connection_limits.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kFewest = 4;
constexpr size_t kFewestSmall = 4;

// Descriptors of a port with this many connections, with one that is about to be closed.
size_t descriptors_of(size_t connections) { return connections + most_refused(connections) + 1; }

// The most connections of one port, up to `wanted`, for which the descriptors suffice.
size_t connections_in(size_t descriptors, size_t wanted) {
  size_t connections = std::min(descriptors, wanted);
  while (connections > 0 && descriptors_of(connections) > descriptors) --connections;
  return connections;
}

}  // namespace

size_t most_refused(size_t max_connections) {
  return std::clamp<size_t>(max_connections / 8, 4, 64);
}

ConnectionLimits fit_connections(ConnectionLimits wanted, size_t ports, size_t small_ports,
                                 size_t descriptors) {
  // Few suffice for a port that is asked now and then; they come first.
  const size_t for_small = descriptors / 16;
  ConnectionLimits fitting;
  fitting.small =
      std::min(wanted.small, std::max(kFewestSmall, connections_in(for_small, wanted.small)));
  const size_t taken = small_ports * descriptors_of(fitting.small);
  const size_t left = descriptors > taken ? descriptors - taken : 0;
  fitting.each = connections_in(left / ports, wanted.each);
  if (fitting.each < std::min(wanted.each, kFewest))
    throw Error(ErrorCode::kUnavailable, cat("the limit of open files leaves ", descriptors,
                                             " descriptors for connections, too few for ",
                                             ports + small_ports, " ports; raise ulimit -n"));
  return fitting;
}

}  // namespace emblem
