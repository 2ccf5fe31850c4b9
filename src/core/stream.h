// core/stream.h - an own stream on the GPU.
#pragma once

#include "core/context.h"

namespace emblem::cuda {

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream_st* get() const { return stream_; }

 private:
  CUstream_st* stream_ = nullptr;
};

}  // namespace emblem::cuda
