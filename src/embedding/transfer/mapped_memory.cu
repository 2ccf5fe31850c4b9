#include "embedding/transfer/mapped_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/cuda_check.h"
#include "core/process.h"
#include "core/thread_pool.h"

namespace emblem::cuda {
namespace {

constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;

// The system clears a page when it is first touched: many threads do that sooner than the one that
// would pin them.
void touch_pages(char* data, int64_t bytes) {
  const int64_t threads = std::clamp<int64_t>(bytes / kHugePage, 1, available_cpus());
  const int64_t each = (bytes / threads + kHugePage - 1) / kHugePage * kHugePage;
  std::vector<std::jthread> touching;
  for (int64_t begin = 0; begin < bytes; begin += each) {
    const int64_t end = std::min(bytes, begin + each);
    touching.emplace_back([=] {
      for (int64_t at = begin; at < end; at += kPage) static_cast<volatile char*>(data)[at] = 0;
    });
  }
}

}  // namespace

MappedMemory::MappedMemory(const std::string& name, int64_t bytes) : bytes_(bytes) {
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
  touch_pages(static_cast<char*>(data), bytes_);
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

MappedMemory::~MappedMemory() {
  cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

}  // namespace emblem::cuda
