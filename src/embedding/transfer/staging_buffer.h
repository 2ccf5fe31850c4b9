// embedding/transfer/staging_buffer.h - where kernels hand rows to the ferry and get rows from it. CUDA builds only.
#pragma once

#include <memory>

#include "core/buffer.h"
#include "core/pinned.h"
#include "embedding/transfer/staging_buffer_ref.h"
#include "embedding/transfer/host_transfer.h"

namespace emblem::cuda {

// For kernels that never run at the same time. It lives as long as graphs may run that use it.
class Berth {
 public:
  enum class Ways { kIn, kInAndOut };
  // For up to `rows` rows of up to `row_bytes` bytes at a time. Null where the ferry would be of no
  // use, or its memory cannot be pinned: then the GPU moves rows by itself.
  static std::unique_ptr<Berth> make(const Context& context, int64_t rows, int64_t row_bytes,
                                     Ways ways);
  // Waits for the GPU, and for the scatters that it asked for.
  ~Berth();
  Berth(const Berth&) = delete;
  Berth& operator=(const Berth&) = delete;

  const BerthRef& ref() const { return ref_; }

 private:
  Berth(const Context& context, std::shared_ptr<Ferry> ferry, int64_t rows, int64_t row_bytes,
        Ways ways);

  std::shared_ptr<Ferry> ferry_;
  PinnedMemory memory_;
  Buffer<BerthState> state_;
  BerthRef ref_;
};

// Without a berth: a ref without a state.
inline BerthRef ref_of(const std::unique_ptr<Berth>& berth) {
  return berth ? berth->ref() : BerthRef{};
}

}  // namespace emblem::cuda
