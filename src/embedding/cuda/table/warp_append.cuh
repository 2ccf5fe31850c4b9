// embedding/cuda/table/warp_append.cuh - appends to a list with one atomic per warp.
#pragma once

#include <cstdint>

namespace emblem::cuda {

// The next index of a list of `*count` items for each lane that wants one. Whole warp.
__device__ inline uint32_t reserve_entries(uint32_t* count, bool wants) {
  const int lane = threadIdx.x % 32;
  const uint32_t lanes = __ballot_sync(~0u, wants);
  uint32_t first = 0;
  if (lane == 0 && lanes != 0) first = atomicAdd(count, static_cast<uint32_t>(__popc(lanes)));
  return __shfl_sync(~0u, first, 0) + __popc(lanes & ((1u << lane) - 1));
}

}  // namespace emblem::cuda
