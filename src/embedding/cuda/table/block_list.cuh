// embedding/cuda/table/block_list.cuh - appends to a list of the whole grid, with one atomic per
// block instead of one per item.
#pragma once

#include <cstdint>

namespace emblem::cuda {

// A list in shared memory. All threads of the block call begin, then add as often as they like,
// then end.
struct BlockList {
  static constexpr uint32_t kMax = 1024;  // items beyond are appended to the list one by one
  uint32_t count, first;
  uint32_t items[kMax];

  __device__ void begin() {
    __syncthreads();
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
  }
  __device__ void add(uint32_t item, uint32_t* list, uint32_t* counter) {
    const uint32_t at = atomicAdd(&count, 1u);
    if (at < kMax)
      items[at] = item;
    else
      list[atomicAdd(counter, 1u)] = item;
  }
  __device__ void end(uint32_t* list, uint32_t* counter) {
    __syncthreads();
    const uint32_t here = min(count, kMax);
    if (threadIdx.x == 0 && here != 0) first = atomicAdd(counter, here);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < here; i += blockDim.x) list[first + i] = items[i];
  }
};

}  // namespace emblem::cuda
