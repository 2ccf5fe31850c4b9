#include "core/files/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "core/device/cuda_check.h"

namespace emblem::cuda {
namespace {

// Limit of a block on the device.
int most_shared_memory(int device) {
  int most = 0;
  cuda_check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "asking for the size of shared memory");
  return most;
}

// A GPU with less can be tested on one with more.
size_t limited(size_t bytes, [[maybe_unused]] size_t of_kernel) {
#if defined(EMBLEM_TEST_HOOKS)
  if (const char* limit = std::getenv("EMBLEM_TEST_SHARED_MEMORY_BYTES"); limit != nullptr)
    return std::min(bytes,
                    std::max<size_t>(std::strtoull(limit, nullptr, 10), of_kernel) - of_kernel);
#endif
  return bytes;
}

}  // namespace

size_t allow_shared_memory(const void* kernel) {
  static std::mutex mutex;
  struct Allowed {
    size_t bytes, of_kernel;
  };
  static std::map<std::pair<int, const void*>, Allowed> allowed;
  int device = 0;
  cuda_check(cudaGetDevice(&device), "asking for the current device");
  std::lock_guard lock(mutex);
  auto found = allowed.find({device, kernel});
  if (found == allowed.end()) {
    cudaFuncAttributes attributes;
    cuda_check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's shared memory");
    const int bytes = most_shared_memory(device) - static_cast<int>(attributes.sharedSizeBytes);
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "asking for shared memory");
    found =
        allowed.insert({{device, kernel}, {static_cast<size_t>(bytes), attributes.sharedSizeBytes}})
            .first;
  }
  return limited(found->second.bytes, found->second.of_kernel);
}

}  // namespace emblem::cuda
