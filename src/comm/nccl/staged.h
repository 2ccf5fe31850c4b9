// comm/nccl/staged.h - GPU memory between ranks that exchange host memory, through pinned staging
// buffers. CUDA builds only.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace emblem::cuda {

// For GPUs that do not reach each other, and machines without NCCL. An exchange waits for the
// stream before it sends; what it received is copied on the stream without waiting. The staging
// buffers are as large as the largest exchange. `control` outlives it; the GPU in use is that of
// all contexts.
std::unique_ptr<Communicator> stage_through_host(Communicator& control);

}  // namespace emblem::cuda
