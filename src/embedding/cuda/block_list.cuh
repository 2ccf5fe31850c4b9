// embedding/cuda/block_list.cuh - a list of the grid, to which blocks add what they have found all
// at once: many atomics on one counter would queue up.
#pragma once

#include <cstdint>

namespace emblem::cuda {

// In shared memory. All threads of the block call begin, then add as often as they like, then end.
struct BlockList {
  static constexpr uint32_t kMost = 1024;  // what does not fit goes to the list at once
  uint32_t count, first;
  uint32_t items[kMost];

  __device__ void begin() {
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
  }
  __device__ void add(uint32_t item, uint32_t* list, uint32_t* counter) {
    const uint32_t at = atomicAdd(&count, 1u);
    if (at < kMost)
      items[at] = item;
    else
      list[atomicAdd(counter, 1u)] = item;
  }
  __device__ void end(uint32_t* list, uint32_t* counter) {
    __syncthreads();
    const uint32_t here = min(count, kMost);
    if (threadIdx.x == 0 && here != 0) first = atomicAdd(counter, here);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < here; i += blockDim.x) list[first + i] = items[i];
  }
};

}  // namespace emblem::cuda
