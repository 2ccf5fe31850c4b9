// embedding/transfer/staging_buffer_ref.h - a staging buffer as kernels get it; what they do with
// it is in embedding/cuda/lookup/transfer_ref.cuh.
#pragma once

#include "embedding/transfer/transfer_queue.h"

namespace emblem::cuda {

// Counts in device memory, so that a captured kernel continues where the last one stopped.
struct TransferCount {
  unsigned long long requested;  // so far
  unsigned long long observed;   // requests that kernels have seen completed
};

// State in device memory; `written` is zero before and after a kernel.
struct StagingState {
  TransferCount requests;
  uint32_t written[kMaxPieces];  // rows of a piece that are in `out`
};

struct StagingBufferRef {
  StagingMemory memory;
  StagingState* state = nullptr;  // null: there is no staging buffer
  uint32_t rows = 0;              // capacity in each direction
  uint32_t piece_rows = 0;        // a multiple of kRowsPerWrite
  uint32_t min_rows = 0;          // fewer rows are moved by the GPU itself
  uint32_t direct_rows = 0;       // rows of every 16 that the GPU reads itself meanwhile
};
inline constexpr uint32_t kRowsPerWrite = 8;  // that a warp writes before it counts them

}  // namespace emblem::cuda
