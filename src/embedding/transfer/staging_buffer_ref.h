// embedding/transfer/staging_buffer_ref.h - a staging of the host_transfer as kernels get it; what
// they do with it is in embedding/cuda/transfer_ref.cuh.
#pragma once

#include "embedding/transfer/transfer_queue.h"

namespace emblem::cuda {

// In device memory, so that a captured kernel goes on where the last one stopped.
struct TransferCount {
  unsigned long long asked;  // so far
  unsigned long long seen;   // of them, those that kernels have seen done
};

// In device memory; `written` is zero before and after a kernel.
struct StagingState {
  TransferCount requests;
  uint32_t written[kMostPieces];  // rows of a piece that are in `out`
};

struct StagingBufferRef {
  StagingMemory memory;
  StagingState* state = nullptr;  // null: there is no host_transfer
  uint32_t rows = 0;              // of a buffer
  uint32_t piece_rows = 0;        // a multiple of kRowsWrittenAtOnce
  uint32_t least_rows = 0;        // fewer are not worth it
  uint32_t direct = 0;            // of 16 rows: those that the GPU reads itself meanwhile
};
inline constexpr uint32_t kRowsWrittenAtOnce = 8;  // by a warp

}  // namespace emblem::cuda
