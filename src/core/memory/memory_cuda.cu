#include "core/device/cuda_check.h"
#include "core/device/gpu.h"
#include "core/device/gpu_monitor.h"
#include "core/memory/allocation_fault.h"
#include "core/memory/buffer.h"
#include "core/text/text.h"

namespace emblem::cuda {

// What other processes hold, where that is known.
static std::string held_by_others() {
  const auto use = gpu_memory_use(gpu_bus_id());
  if (!use || use->other_processes_bytes == 0) return "";
  return cat(", and other processes hold ",
             format_bytes(static_cast<double>(use->other_processes_bytes)),
             " (nvidia-smi lists them)");
}

[[noreturn]] static void throw_out_of_memory(size_t wanted) {
  cudaGetLastError();
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw Error(ErrorCode::kOutOfMemory,
              cat("out of GPU memory: ", format_bytes(static_cast<double>(wanted)), " are wanted, ",
                  format_bytes(static_cast<double>(free)), " of ",
                  format_bytes(static_cast<double>(total)), " are free", held_by_others(),
                  "; lower the batch size, the tables' sizes or embedding_dim"));
}

void* allocate(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status =
      allocation_must_fail() ? cudaErrorMemoryAllocation : cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes);
  cuda_check(status, "allocating device memory");
  if (buffers_are_poisoned()) {
    cuda_check(cudaMemset(data, 0xff, bytes), "poisoning memory");
    cuda_check(cudaStreamSynchronize(nullptr), "poisoning memory");
  }
  return data;
}

void release(void* data) noexcept { cudaFree(data); }

void copy(const Context& context, void* dst, const void* src, size_t bytes) {
  cuda_check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, context.stream), "copying memory");
}

void zero(const Context& context, void* data, size_t bytes) {
  cuda_check(cudaMemsetAsync(data, 0, bytes, context.stream), "zeroing memory");
}

void synchronize(const Context& context) {
  cuda_check(cudaStreamSynchronize(context.stream), "synchronizing a stream");
}

}  // namespace emblem::cuda
