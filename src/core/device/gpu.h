// core/device/gpu.h - whether this machine's GPU can run this program. CUDA builds only.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace emblem::cuda {

// Throws, in one line with what to do, when there is no driver or an old one, no GPU, one below
// compute capability 8.0, or one that this program was not compiled for.
void require_usable_gpu();

// GPUs of this machine that CUDA shows the process.
int gpu_count();

// The calling thread uses GPU `index` from now on; other threads do not.
void use_gpu(int index);

// Compute capability of the GPU in use: 90 for 9.0. Some kernels need 9.0 (bulk copies, vector
// atomics, launches that overlap); on older GPUs others replace them.
int compute_capability();

// "NVIDIA H200, compute capability 9.0, 139.8 GiB"
std::string describe_gpu();

// Bus id of the GPU in use, as NVML names it too.
std::string gpu_bus_id();

// UUID of the GPU in use; no other GPU anywhere has the same.
std::array<char, 16> gpu_uuid();

struct GpuMemory {
  int64_t total_bytes = 0, free_bytes = 0;
};
GpuMemory gpu_memory();

}  // namespace emblem::cuda
