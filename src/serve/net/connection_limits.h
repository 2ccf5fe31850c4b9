// serve/net/connection_limits.h - how many connections the ports of a server may have, so that all
// of them have file descriptors, whatever clients of the others do.
#pragma once

#include <cstddef>

namespace emblem {

struct ConnectionLimits {
  size_t each = 0;   // connections of a port for inference
  size_t small = 0;  // connections of a port for metrics or health checks
};

// Connections beyond a limit that are told so; above, they are closed without an answer.
size_t most_refused(size_t max_connections);

// `wanted` and `wanted_small`, or as many as `descriptors` suffice for that are free. Throws
// kUnavailable when they do not suffice for a few connections.
ConnectionLimits fit_connections(ConnectionLimits wanted, size_t ports, size_t small_ports,
                                 size_t descriptors);

}  // namespace emblem
