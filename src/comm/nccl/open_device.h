// comm/nccl/open_device.h - the communicator for memory of a rank's device.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/nccl/rank_gpu.h"
#include "comm/threads/threads.h"

namespace emblem {

// "nccl": see comm/nccl/nccl.h. "staged": see comm/nccl/staged.h. "auto": NCCL where every rank has
// a GPU of its own and can load it, else staged. All ranks of `control`, which outlives the result,
// call it with the same transport; the GPU in use is that of all contexts. Null with "auto" where
// `control` itself reaches the memory: on a CPU, and for thread ranks. `set_variable` is for NCCL.
std::unique_ptr<Communicator> open_device_communicator(
    const Context& context, Communicator& control, const std::string& transport,
    double collective_seconds = kCollectiveSeconds, const SetVariable& set_variable = {});

// Whether "auto" may be NCCL, which refuses shared GPUs by default and is slower on them, from the
// GPUs of all ranks. Rank 0 says why not.
bool can_use_nccl(const Communicator& control, std::span<const GpuId> gpus);

}  // namespace emblem
