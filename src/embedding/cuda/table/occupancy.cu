#include "embedding/cuda/table/occupancy.h"

#include "core/device/cuda_check.h"

namespace emblem::cuda {

int resident_blocks(const void* kernel, int threads, int shared_bytes) {
  int device = 0, processors = 0, blocks = 0;
  cuda_check(cudaGetDevice(&device), "asking for the device");
  cuda_check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
             "counting multiprocessors");
  cuda_check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes),
             "asking for occupancy");
  return processors * blocks;
}

}  // namespace emblem::cuda
