// comm/nccl/nccl_library.h - the functions of NCCL that emblem uses, of a library that is loaded
// when it is first needed. CUDA builds only.
#pragma once

#include <cstddef>
#include <string>

#include "core/device/context.h"

namespace emblem::cuda {

// As in nccl.h, whose layout and numbers are a stable interface; the header is not part of CUDA.
struct NcclId {
  char bytes[128];
};
using NcclComm = struct ncclComm*;
using NcclResult = int;
inline constexpr NcclResult kNcclSuccess = 0, kNcclInProgress = 7;
inline constexpr int kNcclBytes = 0;  // ncclInt8

struct Nccl {
  NcclResult (*get_version)(int*) = nullptr;
  NcclResult (*get_unique_id)(NcclId*) = nullptr;
  NcclResult (*comm_init_rank)(NcclComm*, int ranks, NcclId, int rank) = nullptr;
  NcclResult (*comm_destroy)(NcclComm) = nullptr;
  NcclResult (*comm_abort)(NcclComm) = nullptr;
  NcclResult (*comm_get_async_error)(NcclComm, NcclResult*) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*send)(const void*, size_t count, int type, int peer, NcclComm,
                     CUstream_st*) = nullptr;
  NcclResult (*recv)(void*, size_t count, int type, int peer, NcclComm, CUstream_st*) = nullptr;
  const char* (*get_error_string)(NcclResult) = nullptr;
  const char* (*get_last_error)(NcclComm) = nullptr;  // null before NCCL 2.13

  std::string version() const;  // "2.28.9"
};

// Throws kUnavailable when libnccl.so.2 cannot be loaded. Thread-safe.
const Nccl& nccl();

}  // namespace emblem::cuda
