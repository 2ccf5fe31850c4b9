#include <cstring>

#include "core/device/cuda_check.h"
#include "serve/protocol/cuda_region.h"

namespace emblem::cuda {

CudaRegion::CudaRegion(const std::string& name, const std::string& handle, int64_t device,
                       uint64_t bytes) {
  cudaIpcMemHandle_t opened;
  EMBLEM_REQUIRE(handle.size() == sizeof(opened), "CUDA shared memory region ", name,
                 " has a handle of ", handle.size(), " bytes; expected ", sizeof(opened));
  EMBLEM_REQUIRE(device == 0, "CUDA shared memory region ", name, " is on GPU ", device,
                 "; this server uses GPU 0");
  EMBLEM_REQUIRE(bytes > 0, "CUDA shared memory region ", name, " has no bytes");
  std::memcpy(&opened, handle.data(), sizeof(opened));
  void* data = nullptr;
  cudaError_t status = cudaIpcOpenMemHandle(&data, opened, cudaIpcMemLazyEnablePeerAccess);
  if (status != cudaSuccess) {
    cudaGetLastError();
    throw Error(
        ErrorCode::kInvalidArgument,
        cat("CUDA shared memory region ", name, " cannot be opened: ", cudaGetErrorString(status)));
  }
  data_ = static_cast<char*>(data);
  // A client may claim more than it has: reading past the end would break the whole process.
  try {
    char last = 0;
    status = cudaMemcpy(&last, data_ + bytes - 1, 1, cudaMemcpyDeviceToHost);
    if (status != cudaSuccess) {
      cudaGetLastError();
      throw Error(ErrorCode::kInvalidArgument,
                  cat("CUDA shared memory region ", name, " is smaller than the ", bytes,
                      " bytes it was registered with"));
    }
  } catch (...) {
    cudaIpcCloseMemHandle(data_);
    throw;
  }
}

CudaRegion::~CudaRegion() { cudaIpcCloseMemHandle(data_); }

void CudaRegion::read(uint64_t offset, std::span<std::byte> to) const {
  cuda_check(cudaMemcpy(to.data(), data_ + offset, to.size(), cudaMemcpyDeviceToHost),
             "reading CUDA shared memory");
}

void CudaRegion::write(uint64_t offset, std::span<const std::byte> from) const {
  cuda_check(cudaMemcpy(data_ + offset, from.data(), from.size(), cudaMemcpyHostToDevice),
             "writing CUDA shared memory");
}

}  // namespace emblem::cuda
