// bench/comm/collective.h - one collective with its buffers, as the benchmark repeats it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/comm/floor.h"
#include "comm/communicator.h"

namespace emblem {

class Collective {
 public:
  virtual ~Collective() = default;
  virtual void run() = 0;
  // Throws kInternal unless the answer of run() after prepare() is right.
  virtual void prepare() = 0;
  virtual void check() const = 0;
  // Bytes that a rank receives from others; on average where ranks differ.
  virtual size_t received() const = 0;
  // Moves as many bytes in as many steps without a communicator.
  virtual void run_floor(CommFloor& floor) const { floor.run(received()); }
};

// `bytes`: of a rank's whole buffer, rounded up so that the ranks divide it; it is on the context's
// device, and run() does not wait for a GPU. sum_all is of host memory only.
std::unique_ptr<Collective> make_collective(const Context& context, const std::string& name,
                                            Communicator& ranks, size_t bytes);

}  // namespace emblem
