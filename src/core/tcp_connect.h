// core/tcp_connect.h - a TCP connection to a host that may have several addresses.
#pragma once

#include <span>

#include "core/host_resolver.h"

namespace emblem {

// A non-blocking socket, connected to the address that answered first; the caller closes it. Where
// one stays silent for a share of the time, the next is tried as well, so that a dead address does
// not use up the time of the others. Throws kUnavailable with the last reason.
int connect_first(std::span<const SocketAddress> addresses, Deadline deadline);

}  // namespace emblem
