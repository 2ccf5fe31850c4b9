// embedding/transfer/staging_buffer.h - pinned memory in which kernels and host threads exchange
// rows. CUDA builds only.
#pragma once

#include <memory>

#include "core/memory/buffer.h"
#include "core/memory/pinned.h"
#include "embedding/settings.h"
#include "embedding/transfer/host_transfer.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

// Used by one kernel at a time. It must outlive the CUDA graphs that use it.
class StagingBuffer {
 public:
  enum class Direction { kToDevice, kBoth };
  // A buffer for up to `rows` rows of up to `row_bytes` bytes at a time. Null where host
  // threads would not help (few rows, few CPUs) or the memory cannot be pinned: the GPU then
  // moves all rows itself.
  static std::unique_ptr<StagingBuffer> make(const Context& context, int64_t rows,
                                             int64_t row_bytes, Direction direction,
                                             const TransferSettings& settings);
  // Waits for the GPU and for the scatters that it has requested.
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  const StagingBufferRef& ref() const { return ref_; }

 private:
  StagingBuffer(const Context& context, std::shared_ptr<HostTransfer> host_transfer, int64_t rows,
                int64_t row_bytes, Direction direction, const TransferSettings& settings);

  std::shared_ptr<HostTransfer> transfer_;
  PinnedMemory memory_;
  Buffer<StagingState> state_;
  StagingBufferRef ref_;
};

// The ref; without a staging buffer, a ref without a state.
inline StagingBufferRef ref_of(const std::unique_ptr<StagingBuffer>& staging) {
  return staging ? staging->ref() : StagingBufferRef{};
}

}  // namespace emblem::cuda
