// core/files/shared_memory.h - kernels with more dynamic shared memory than a launch has by
// default.
#pragma once

#include <cstddef>

namespace emblem::cuda {

// Lets launches of the kernel on the current device take all the shared memory that a block may
// have, and returns how many bytes that are: 99 KiB less those that the kernel has anyway on
// GPUs of compute capability 8.6, 8.9 and 12.0, more on others. The limit is the kernel's in all
// threads of the process: with a limit of each launch's own, a thread whose launch needs less would
// take the memory from another's.
size_t allow_shared_memory(const void* kernel);

template <class... Arguments>
size_t allow_shared_memory(void (*kernel)(Arguments...)) {
  return allow_shared_memory(reinterpret_cast<const void*>(kernel));
}

// What every GPU that Emblem runs on has for a block.
inline constexpr size_t kLeastSharedMemory = 99 * 1024;

}  // namespace emblem::cuda
