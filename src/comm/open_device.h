// comm/open_device.h - the communicator for memory of a rank's device.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/threads.h"

namespace emblem {

// "nccl": see comm/nccl.h. "staged": see comm/staged.h. "auto": NCCL where every rank can load it,
// else staged. All ranks of `control`, which outlives the result, call it with the same transport;
// the GPU in use is that of all contexts. Null with "auto" where `control` itself reaches the
// memory: on a CPU, and for thread ranks.
std::unique_ptr<Communicator> open_device_communicator(
    const Context& context, Communicator& control, const std::string& transport,
    double collective_seconds = kCollectiveSeconds);

}  // namespace emblem
