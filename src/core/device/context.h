// core/device/context.h - where work runs and with which threads. Passed first, never global.
#pragma once

#include "core/device/device.h"

struct CUstream_st;  // so that host-only files need no CUDA header

namespace emblem {

class ThreadPool;

struct Context {
  Device device = Device::kCpu;
  CUstream_st* stream = nullptr;  // used when device == kCuda; borrowed
  ThreadPool* threads = nullptr;  // CPU work runs on these; null means the calling thread alone

  // Blocks until all work enqueued on this context has finished. No-op on CPU.
  void synchronize() const;
};

}  // namespace emblem
