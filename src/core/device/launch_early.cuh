// core/device/launch_early.cuh - kernels that start while the one before them still runs, and wait
// for it only where they need what it wrote. In a chain of small kernels this hides most of each
// start.
#pragma once

#include <cuda_runtime.h>

#include "core/device/context.h"
#include "core/device/cuda_check.h"
#include "core/device/gpu.h"

namespace emblem::cuda {

// The kernel must call wait_for_the_kernel_before() before it reads or writes anything that another
// kernel writes or reads.
template <class... Parameters, class... Arguments>
void launch_early(const Context& context, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                  size_t shared, Arguments... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = context.stream;
  config.attrs = &early;
  config.numAttrs = compute_capability() >= 90 ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), "launching a kernel");
}

__device__ inline void let_the_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ inline void wait_for_the_kernel_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

}  // namespace emblem::cuda
