// embedding/transfer/host_rows.h - the rows of a cached table: in host memory that the GPU reaches,
// and the slots that some of them have in device memory.
#pragma once

#include <cstdint>
#include <string>

#include "core/buffer.h"
#include "core/pinned.h"
#include "embedding/transfer/mapped_memory.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

class HostRows {
 public:
  HostRows(const Context& context, const std::string& name, int64_t rows, int64_t stride,
           int64_t slots);

  char* data() const { return memory_.data(); }
  int64_t bytes() const;  // of host and device memory
  int64_t slots() const { return slot_rows_.size(); }
  void forget_slots(const Context& context);  // the cache is empty

  uint32_t* slot_of_row() { return slot_of_row_.data(); }
  uint32_t* slot_rows() { return slot_rows_.data(); }
  uint32_t* slot_used() { return slot_used_.data(); }
  uint8_t* slot_changed() { return slot_changed_.data(); }

  // Pieces of rows that kernels left to the host_transfer, and those that it has brought here.
  TransferCount* scatters() { return scatters_.data(); }
  uint64_t* scattered() { return reinterpret_cast<uint64_t*>(scattered_.data()); }

 private:
  MappedMemory memory_;
  Buffer<uint32_t> slot_of_row_, slot_rows_, slot_used_;
  Buffer<uint8_t> slot_changed_;
  Buffer<TransferCount> scatters_;
  PinnedMemory scattered_;
};

}  // namespace emblem::cuda
