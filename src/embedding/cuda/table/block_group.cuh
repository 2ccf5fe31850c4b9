// embedding/cuda/table/block_group.cuh - some blocks of a cooperative kernel that work together.
#pragma once

#include <cstdint>

namespace emblem::cuda {

// All blocks of a group have the same barrier, a word in device memory that is zero at first and
// used by one group at a time; between two groups the whole grid waits.
class BlockGroup {
 public:
  // The block `number`, from 0, of `blocks`.
  __device__ BlockGroup(uint32_t* barrier, uint32_t number, uint32_t blocks)
      : barrier_(barrier), number_(number), blocks_(blocks) {}

  __device__ uint32_t thread_rank() const { return number_ * blockDim.x + threadIdx.x; }
  __device__ uint32_t num_threads() const { return blocks_ * blockDim.x; }

  // Waits for all threads of the group, which then see each other's writes.
  __device__ void sync() const {
    __syncthreads();
    if (blocks_ > 1 && threadIdx.x == 0) wait_for_blocks();
    __syncthreads();
  }

 private:
  // The last block to arrive flips the highest bit, and leaves the others as they were.
  __device__ void wait_for_blocks() const {
    constexpr uint32_t kFlipped = 1u << 31;
    const uint32_t step = number_ == 0 ? kFlipped - (blocks_ - 1) : 1;
    __threadfence();
    const uint32_t before = atomicAdd(barrier_, step);
    const volatile uint32_t* now = barrier_;
    while (((before ^ *now) & kFlipped) == 0) {
    }
    __threadfence();
  }

  uint32_t* barrier_;
  uint32_t number_, blocks_;
};

}  // namespace emblem::cuda
