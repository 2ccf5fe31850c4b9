#include "core/stream.h"

#include "core/cuda_check.h"

namespace emblem::cuda {

Stream::Stream() {
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

}  // namespace emblem::cuda
