// embedding/cuda/table/bulk_copy.cuh - copies that a single lane starts and the hardware finishes:
// global memory to shared and back, in units of 16 bytes. For compute capability 9.0 and higher.
#pragma once

#include <cstdint>

namespace emblem::cuda {

__device__ inline uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Counts bytes that have arrived in shared memory. One lane initializes it and announces bytes; any
// lane may wait for the phase to end.
struct BulkBarrier {
  uint64_t word;

  __device__ void init() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&word)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __device__ void announce(uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&word)),
        "r"(bytes)
        : "memory");
  }
  __device__ void wait(uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over;\n"
        "bra again;\n"
        "over:\n"
        "}" ::"r"(shared_address(&word)),
        "r"(parity)
        : "memory");
  }
};

__device__ inline void bulk_load(void* shared, const void* from, uint32_t bytes,
                                 BulkBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier.word))
      : "memory");
}

__device__ inline void bulk_store(void* to, const void* shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most kLeft of the calling lane's groups of stores still read shared memory.
template <int kLeft>
__device__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
__device__ inline void bulk_wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace emblem::cuda
