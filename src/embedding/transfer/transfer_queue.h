// embedding/transfer/transfer_queue.h - the requests of kernels to host threads
// (embedding/transfer/host_transfer.h), in pinned host memory that both access.
#pragma once

#include <cstdint>

#include "core/device/host_device.h"

namespace emblem {

// Rows are transferred in pieces, so that one piece crosses the bus while the next is gathered. At
// most this many pieces are in flight in each direction.
inline constexpr int kMaxPieces = 64;
inline constexpr int kMaxRequests = 4 * kMaxPieces;  // more than can be in flight

// A row in a list: its address and, in the upper 16 bits, its length in units of 16 bytes. 0: none.
EMBLEM_HD inline uint64_t packed_row(const char* row, uint64_t bytes) {
  return reinterpret_cast<uint64_t>(row) | bytes / 16 << 48;
}
inline constexpr int64_t kMaxTransferredRowBytes = 65535 * 16;

struct alignas(64) TransferRequest {
  enum class Kind : uint32_t {
    kWake,  // wakes the host threads: other requests will follow soon
    kGather,
    kScatter
  };
  uint64_t number = 0;  // number of the request, from 1; written last
  Kind kind = Kind::kWake;
  uint32_t begin = 0, end = 0;    // range of the rows in the list
  uint32_t stride = 0;            // bytes between rows of the buffer
  uint64_t* scattered = nullptr;  // the table's count of completed scatters
};

struct alignas(64) TransferQueue {
  uint64_t done = 0;  // completed requests
  TransferRequest requests[kMaxRequests];
};

// The memory of a staging buffer.
struct StagingMemory {
  TransferQueue* queue = nullptr;
  char *in = nullptr, *out = nullptr;  // rows gathered for the GPU, and rows to scatter
  uint64_t *in_rows = nullptr, *out_rows = nullptr;  // packed rows: where each row of them belongs
};

}  // namespace emblem
