#include "core/shared_memory.h"

#include <mutex>
#include <set>
#include <utility>

#include "core/cuda_check.h"

namespace emblem::cuda {

void allow_shared_memory(const void* kernel) {
  static std::mutex mutex;
  static std::set<std::pair<int, const void*>> allowed;
  int device = 0, most = 0;
  cuda_check(cudaGetDevice(&device), "asking for the current device");
  std::lock_guard lock(mutex);
  if (allowed.contains({device, kernel})) return;
  cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "asking for the size of shared memory");
  cudaFuncAttributes attributes;
  cuda_check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's shared memory");
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  most - static_cast<int>(attributes.sharedSizeBytes)),
             "asking for shared memory");
  allowed.emplace(device, kernel);
}

}  // namespace emblem::cuda
