// serve/protocol/cuda_region.h - device memory of another process, which a client shares with
// requests. CUDA builds only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace emblem::cuda {

// Thread-safe.
class CudaRegion {
 public:
  // `handle` is what cudaIpcGetMemHandle gave the client. Throws kInvalidArgument.
  CudaRegion(const std::string& name, const std::string& handle, int64_t device, uint64_t bytes);
  ~CudaRegion();
  CudaRegion(const CudaRegion&) = delete;
  CudaRegion& operator=(const CudaRegion&) = delete;

  // Copies bytes that are in the region; waits for them.
  void read(uint64_t offset, std::span<std::byte> to) const;
  void write(uint64_t offset, std::span<const std::byte> from) const;

 private:
  char* data_ = nullptr;
};

}  // namespace emblem::cuda
