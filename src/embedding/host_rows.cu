#include "embedding/host_rows.h"

#include <sys/mman.h>

#include "core/cuda_check.h"
#include "core/process.h"

namespace emblem::cuda {

HostRows::HostRows(const Context& context, const std::string& name, int64_t rows, int64_t stride,
                   int64_t slots)
    : bytes_(rows * stride),
      slot_of_row_(Device::kCuda, rows),
      slot_rows_(Device::kCuda, slots),
      slot_used_(Device::kCuda, slots),
      slot_changed_(Device::kCuda, slots) {
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
  forget_slots(context);
}

HostRows::~HostRows() {
  if (data_ == nullptr) return;
  cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

void HostRows::forget_slots(const Context& context) {
  cuda_check(cudaMemsetAsync(slot_of_row_.data(), 0xff, slot_of_row_.size() * 4, context.stream),
             "filling");
  cuda_check(cudaMemsetAsync(slot_rows_.data(), 0xff, slot_rows_.size() * 4, context.stream),
             "filling");
  cuda_check(cudaMemsetAsync(slot_used_.data(), 0, slot_used_.size() * 4, context.stream),
             "zeroing");
  cuda_check(cudaMemsetAsync(slot_changed_.data(), 0, slot_changed_.size(), context.stream),
             "zeroing");
}

}  // namespace emblem::cuda
