// embedding/transfer/staging_buffer.h - where kernels hand rows to the host_transfer and get rows
// from it. CUDA builds only.
#pragma once

#include <memory>

#include "core/buffer.h"
#include "core/pinned.h"
#include "embedding/settings.h"
#include "embedding/transfer/host_transfer.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

// For kernels that never run at the same time. It lives as long as graphs may run that use it.
class StagingBuffer {
 public:
  enum class Ways { kIn, kInAndOut };
  // For up to `rows` rows of up to `row_bytes` bytes at a time. Null where the host_transfer would
  // be of no use, or its memory cannot be pinned: then the GPU moves rows by itself.
  static std::unique_ptr<StagingBuffer> make(const Context& context, int64_t rows,
                                             int64_t row_bytes, Ways ways,
                                             const TransferSettings& settings);
  // Waits for the GPU, and for the scatters that it asked for.
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  const StagingBufferRef& ref() const { return ref_; }

 private:
  StagingBuffer(const Context& context, std::shared_ptr<HostTransfer> host_transfer, int64_t rows,
                int64_t row_bytes, Ways ways, const TransferSettings& settings);

  std::shared_ptr<HostTransfer> transfer_;
  PinnedMemory memory_;
  Buffer<StagingState> state_;
  StagingBufferRef ref_;
};

// Without a staging: a ref without a state.
inline StagingBufferRef ref_of(const std::unique_ptr<StagingBuffer>& staging) {
  return staging ? staging->ref() : StagingBufferRef{};
}

}  // namespace emblem::cuda
