// launch/meeting_port.h - a port for rank 0 to listen at.
#pragma once

#include <cstdint>

#include "core/file_descriptor.h"

namespace emblem {

// A free port of this machine. It is kept from programs that ask for any port while this exists; a
// rank that asks for this one gets it.
class ReservedPort {
 public:
  ReservedPort();
  uint16_t port() const { return port_; }

 private:
  FileDescriptor socket_{-1};
  uint16_t port_ = 0;
};

// A port of another machine that is probably free: below those that systems give away.
uint16_t guess_port();

}  // namespace emblem
