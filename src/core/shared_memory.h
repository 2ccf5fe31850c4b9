// core/shared_memory.h - kernels with more dynamic shared memory than a launch has unasked.
#pragma once

namespace emblem::cuda {

// Lets launches of the kernel on the current device take all the shared memory that a block may
// have. The limit is the kernel's in all threads of the process: with a limit of each launch's own,
// a thread whose launch needs less would take the memory from another's.
void allow_shared_memory(const void* kernel);

template <class... Arguments>
void allow_shared_memory(void (*kernel)(Arguments...)) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel));
}

}  // namespace emblem::cuda
