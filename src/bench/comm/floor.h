// bench/comm/floor.h - the least time in which bytes reach all ranks of one host.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace emblem {

// All ranks move bytes at the same time, without a communicator: ranks connected by TCP over raw
// loopback sockets in a ring, others by copying memory. Functions are called on every rank.
class CommFloor {
 public:
  virtual ~CommFloor() = default;
  virtual void run(size_t bytes) = 0;  // that every rank receives
  // One step of a broadcast: rank 0 sends to rank 1 in the first call, 1 to 2 in the next, and so
  // on. By copying: all ranks but the source copy.
  virtual void pass(size_t bytes) = 0;
  virtual const char* name() const = 0;
};

// The floor over memory of the context's device; functions do not wait for a GPU. Null where
// there is none: ranks on several hosts.
std::unique_ptr<CommFloor> make_floor(const Context& context, Communicator& ranks,
                                      size_t most_bytes);

}  // namespace emblem
