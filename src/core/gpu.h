// core/gpu.h - whether this machine's GPU can run this program. CUDA builds only.
#pragma once

#include <cstdint>
#include <string>

namespace emblem::cuda {

// Throws, in one line with what to do, when there is no driver or an old one, no GPU, or one that
// this program was not compiled for.
void require_usable_gpu();

// "NVIDIA H200, compute capability 9.0, 139.8 GiB"
std::string describe_gpu();

// Of the GPU in use, as NVML names it too.
std::string gpu_bus_id();

struct GpuMemory {
  int64_t total_bytes = 0, free_bytes = 0;
};
GpuMemory gpu_memory();

}  // namespace emblem::cuda
