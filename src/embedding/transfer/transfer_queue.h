// embedding/transfer/transfer_queue.h - what kernels and the host_transfer
// (embedding/transfer/host_transfer.h) share, in host memory that both reach.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace emblem {

// Rows are carried in pieces, so that one crosses the bus while the next is gathered. At most this
// many are on their way in, and as many out.
inline constexpr int kMostPieces = 64;
inline constexpr int kMostRequests = 4 * kMostPieces;  // that may be under way, and more

// A row in a list: its address, and its length in units of 16 bytes. 0: nothing to carry.
EMBLEM_HD inline uint64_t listed_row(const char* row, uint64_t bytes) {
  return reinterpret_cast<uint64_t>(row) | bytes / 16 << 48;
}
inline constexpr int64_t kLongestTransferredRow = 65535 * 16;  // bytes

struct alignas(64) TransferRequest {
  enum class Kind : uint32_t {
    kCall,  // nothing yet: rows will be asked for soon
    kGather,
    kScatter
  };
  uint64_t number = 0;  // of the request, from 1; written last
  Kind kind = Kind::kCall;
  uint32_t begin = 0, end = 0;    // of the rows in the list
  uint32_t stride = 0;            // bytes from row to row of the buffer
  uint64_t* scattered = nullptr;  // the table's count of scatters that are done
};

struct alignas(64) TransferQueue {
  uint64_t done = 0;  // requests
  TransferRequest requests[kMostRequests];
};

// What kernels and the host_transfer share.
struct StagingMemory {
  TransferQueue* queue = nullptr;
  char *in = nullptr, *out = nullptr;
  uint64_t *in_from = nullptr, *out_to = nullptr;  // listed rows
};

}  // namespace emblem
