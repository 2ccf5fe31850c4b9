// embedding/cuda/by_address.cuh - rows are moved over the bus in the order of their places in host
// memory.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

namespace emblem::cuda {

inline constexpr int kPlaces = 4096;  // of host memory: neighbours are moved one after the other

// The place of row `row` of `rows` that lie one behind the other.
__device__ inline uint32_t place_of(uint32_t row, int64_t rows) {
  return static_cast<uint32_t>(static_cast<int64_t>(row) * kPlaces / rows);
}

// Sixteen bytes a lane at a time, by a whole warp; host memory is read and written without passing
// the caches.
__device__ inline void copy_row(char* to, const char* from, int64_t bytes) {
  for (int64_t at = threadIdx.x % 32 * 16; at < bytes; at += 512) {
    const uint4 part = __ldcs(reinterpret_cast<const uint4*>(from + at));
    __stcs(reinterpret_cast<uint4*>(to + at), part);
  }
}

// Orders `items` by place(item), which is below kPlaces. Rows of one page in a row keep the bus's
// address translation out of the way: at random it allows a third of the bus's rate. `places`:
// [kPlaces], zero before. Whole grid of kThreads a block; needs a barrier behind it.
template <int kThreads, class Place>
__device__ void sort_by_place(const uint32_t* items, uint32_t count, uint32_t* sorted,
                              uint32_t* places, cooperative_groups::grid_group grid,
                              Place&& place) {
  const uint32_t step = gridDim.x * kThreads, first = blockIdx.x * kThreads + threadIdx.x;
  for (uint32_t i = first; i < count; i += step) atomicAdd(&places[place(items[i])], 1u);
  grid.sync();
  if (blockIdx.x == 0) {  // counts become beginnings
    __shared__ uint32_t sums[kThreads];
    constexpr int kEach = kPlaces / kThreads;
    uint32_t* mine = places + threadIdx.x * kEach;
    uint32_t sum = 0;
    for (int i = 0; i < kEach; ++i) sum += mine[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    uint32_t before = 0;
    for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) before += sums[i];
    for (int i = 0; i < kEach; ++i) {
      const uint32_t here = mine[i];
      mine[i] = before;
      before += here;
    }
  }
  grid.sync();
  for (uint32_t i = first; i < count; i += step)
    sorted[atomicAdd(&places[place(items[i])], 1u)] = items[i];
}

}  // namespace emblem::cuda
