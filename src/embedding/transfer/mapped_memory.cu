#include "embedding/transfer/mapped_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/device/cuda_check.h"
#include "core/memory/allocation_fault.h"
#include "core/system/process.h"
#include "core/threads/thread_pool.h"

namespace emblem::cuda {
namespace {

constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;

// The system zeroes a page at its first access. Many threads do that faster than the single thread
// that pins the memory.
void touch_pages(char* data, int64_t bytes) {
  const auto workers =
      static_cast<int>(std::clamp<int64_t>(bytes / kHugePage, 1, available_cpus()));
  ThreadPool pool(workers, {"page touching", "use fewer CPUs (taskset)"});
  parallel_for(Context{.threads = &pool}, bytes, kHugePage, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kPage) static_cast<volatile char*>(data)[at] = 0;
  });
}

}  // namespace

MappedMemory::MappedMemory(const std::string& name, int64_t bytes) : bytes_(bytes) {
  // Linux overcommits memory and kills a process that then uses too much: check before.
  const int64_t available = available_memory_bytes();
  if (bytes_ > available)
    throw Error(
        ErrorCode::kOutOfMemory,
        cat(name, ": its rows need ", bytes_, " bytes of host memory, but only ", available, " of ",
            total_memory_bytes(), " are available; lower the capacity or the dimension"));
  const auto unmap = [bytes](void* data) { munmap(data, bytes); };
  void* data = allocation_must_fail() ? MAP_FAILED
                                      : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw Error(ErrorCode::kOutOfMemory,
                cat(name, ": cannot map ", bytes_, " bytes of host memory for its rows: ",
                    std::strerror(errno), "; lower the capacity or the dimension"));
  std::unique_ptr<void, decltype(unmap)> mapping(data, unmap);
  madvise(data, bytes_, MADV_HUGEPAGE);
  touch_pages(static_cast<char*>(data), bytes_);
  const cudaError_t pinned =
      cudaHostRegister(data, bytes_, cudaHostRegisterMapped | cudaHostRegisterPortable);
  if (pinned != cudaSuccess) {
    cudaGetLastError();
    throw Error(ErrorCode::kOutOfMemory,
                cat(name, ": cannot pin ", bytes_, " bytes of host memory for its rows (",
                    cudaGetErrorString(pinned),
                    "); lower the capacity or the dimension, or raise ulimit -l"));
  }
  data_ = static_cast<char*>(mapping.release());
}

MappedMemory::~MappedMemory() {
  cudaHostUnregister(data_);
  munmap(data_, bytes_);
}

}  // namespace emblem::cuda
