#include "embedding/far_memory.h"

#include <sys/mman.h>

#include "core/cuda_check.h"
#include "core/process.h"

namespace emblem::cuda {

FarMemory::FarMemory(const std::string& name, int64_t bytes) : bytes_(bytes) {
  // The system promises more than it has, and ends a program that takes it at its word.
  const int64_t available = available_memory_bytes();
  if (bytes_ > available)
    throw Error(
        ErrorCode::kOutOfMemory,
        cat(name, ": ", bytes_, " bytes of host memory are wanted for its rows, but ", available,
            " of ", total_memory_bytes(), " are free: lower the capacity or the dimension"));
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw Error(ErrorCode::kOutOfMemory,
                cat(name, ": ", bytes_,
                    " bytes of host memory are wanted for its rows, but the system gives no "
                    "addresses for them: lower the capacity or the dimension"));
  madvise(data, bytes_, MADV_HUGEPAGE);
  const cudaError_t pinned =
      cudaHostRegister(data, bytes_, cudaHostRegisterMapped | cudaHostRegisterPortable);
  if (pinned != cudaSuccess) {
    munmap(data, bytes_);
    cudaGetLastError();
    throw Error(ErrorCode::kOutOfMemory,
                cat(name, ": ", bytes_, " bytes of host memory cannot be pinned for its rows (",
                    cudaGetErrorString(pinned),
                    "): lower the capacity or the dimension, or raise the limit of locked memory"));
  }
  data_ = static_cast<char*>(data);
}

FarMemory::~FarMemory() {
  cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

}  // namespace emblem::cuda
