// comm/nccl/nccl.h - GPU memory between ranks by NCCL. CUDA builds only.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "core/system/process.h"

namespace emblem::cuda {

// Connects the ranks of `control`, which outlives it and carries host memory and failures; all
// ranks call it. The GPU in use is that of all contexts. An exchange is enqueued on the stream and
// does not wait for the GPU.
//
// A thread looks for failures of `control` and for an exchange that takes longer than
// `collective_seconds`. It then aborts NCCL, so that kernels that wait for a lost rank end: what
// they should have received is undefined. After waiting for the stream, check() says whether that
// has happened.
//
// NCCL allows ranks of one machine to share a GPU only where each has an NCCL_HOSTID of its own. It
// is set for such ranks, which must be processes, unless it is set already; their data then goes
// over sockets, through the loopback interface where all ranks are on one host and
// NCCL_SOCKET_IFNAME is not set. Both are set by `set_variable`; without it a line says what to
// set.
//
// Throws kUnavailable when the library cannot be loaded or the ranks cannot be connected.
std::unique_ptr<Communicator> connect_by_nccl(Communicator& control, double collective_seconds,
                                              const SetVariable& set_variable);

}  // namespace emblem::cuda
