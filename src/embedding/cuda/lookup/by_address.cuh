// embedding/cuda/lookup/by_address.cuh - sorts rows by their address in host memory before they
// cross the bus.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

namespace emblem::cuda {

inline constexpr int kAddressBins = 4096;  // equal parts of a table's host memory

// The bin of row `row` of `rows` contiguous ones.
__device__ inline uint32_t address_bin(uint32_t row, int64_t rows) {
  return static_cast<uint32_t>(static_cast<int64_t>(row) * kAddressBins / rows);
}

// Sixteen bytes a lane at a time, by a whole warp; the data is marked to leave the caches first.
__device__ inline void copy_row(char* to, const char* from, int64_t bytes) {
  for (int64_t at = threadIdx.x % 32 * 16; at < bytes; at += 512) {
    const uint4 part = __ldcs(reinterpret_cast<const uint4*>(from + at));
    __stcs(reinterpret_cast<uint4*>(to + at), part);
  }
}

// Sorts `items` by bin_of(item), which is below kAddressBins. Rows of one page that follow each
// other share its address translation: in random order that limits the bus to a third of its rate.
// `bins`: [kAddressBins], zero before. Whole grid, kThreads per block; needs a grid barrier
// afterwards.
template <int kThreads, class BinOf>
__device__ void sort_by_address(const uint32_t* items, uint32_t count, uint32_t* sorted,
                                uint32_t* bins, cooperative_groups::grid_group grid,
                                BinOf&& bin_of) {
  const uint32_t step = gridDim.x * kThreads, first = blockIdx.x * kThreads + threadIdx.x;
  for (uint32_t i = first; i < count; i += step) atomicAdd(&bins[bin_of(items[i])], 1u);
  grid.sync();
  if (blockIdx.x == 0) {  // exclusive prefix sum: counts become first indexes
    __shared__ uint32_t sums[kThreads];
    constexpr int kEach = kAddressBins / kThreads;
    uint32_t* mine = bins + threadIdx.x * kEach;
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
    sorted[atomicAdd(&bins[bin_of(items[i])], 1u)] = items[i];
}

}  // namespace emblem::cuda
