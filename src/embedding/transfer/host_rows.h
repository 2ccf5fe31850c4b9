// embedding/transfer/host_rows.h - the rows of a cached table in pinned host memory, and which of
// them are in slots of the cache in device memory. CUDA builds only.
#pragma once

#include <cstdint>
#include <string>

#include "core/memory/buffer.h"
#include "core/memory/pinned.h"
#include "embedding/transfer/mapped_memory.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

class HostRows {
 public:
  HostRows(const Context& context, const std::string& name, int64_t rows, int64_t stride,
           int64_t slots);

  char* data() const { return memory_.data(); }
  int64_t bytes() const;  // host and device memory
  int64_t slots() const { return slot_rows_.size(); }
  void clear_slots(const Context& context);  // makes the cache empty

  uint32_t* slot_of_row() { return slot_of_row_.data(); }
  uint32_t* slot_rows() { return slot_rows_.data(); }
  uint32_t* slot_used() { return slot_used_.data(); }
  uint8_t* slot_changed() { return slot_changed_.data(); }

  // Scatter requests that kernels have made for this table, and those that the host threads have
  // completed.
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
