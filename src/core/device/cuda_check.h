// core/device/cuda_check.h - turns a CUDA status into an emblem::Error. A function, not a macro.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

#include "emblem/error.h"

namespace emblem {

inline void cuda_check(cudaError_t status, const char* doing,
                       std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clear a sticky launch error so that it is not reported twice
  const auto code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kInternal;
  throw Error(code, cat("CUDA failed while ", doing, ": ", cudaGetErrorString(status), " (",
                        cudaGetErrorName(status), ") at ", where.file_name(), ":", where.line()));
}

}  // namespace emblem
