// core/device/workers.h - where a command or a run computes: threads of the CPU, a stream of the
// GPU.
#pragma once

#include <memory>

#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/stream.h"
#include "core/threads/thread_pool.h"

namespace emblem {

struct Workers {
  std::unique_ptr<ThreadPool> pool;
  std::shared_ptr<cuda::Stream> stream;  // null on a CPU
  Context context;
};

// `threads` 0: EMBLEM_THREADS, or one per CPU. Throws Error where there is no usable GPU.
Workers make_workers(Device device, int threads);

}  // namespace emblem
