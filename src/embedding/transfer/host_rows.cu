#include "embedding/transfer/host_rows.h"

#include "core/device/cuda_check.h"

namespace emblem::cuda {

HostRows::HostRows(const Context& context, const std::string& name, int64_t rows, int64_t stride,
                   int64_t slots)
    : memory_(name, rows * stride),
      slot_of_row_(Device::kCuda, rows),
      slot_rows_(Device::kCuda, slots),
      slot_used_(Device::kCuda, slots),
      slot_changed_(Device::kCuda, slots),
      scatters_(Buffer<TransferCount>::zeros(context, 1)),
      scattered_(sizeof(uint64_t)) {
  *scattered() = 0;
  clear_slots(context);
}

int64_t HostRows::bytes() const {
  return memory_.bytes() + (slot_of_row_.size() + slot_rows_.size() + slot_used_.size()) * 4 +
         slot_changed_.size();
}

void HostRows::clear_slots(const Context& context) {
  cuda_check(cudaMemsetAsync(slot_of_row_.data(), 0xff, slot_of_row_.size() * 4, context.stream),
             "filling");
  cuda_check(cudaMemsetAsync(slot_rows_.data(), 0xff, slot_rows_.size() * 4, context.stream),
             "filling");
  cuda_check(cudaMemsetAsync(slot_used_.data(), 0, slot_used_.size() * 4, context.stream),
             "zeroing");
  cuda_check(cudaMemsetAsync(slot_changed_.data(), 0, slot_changed_.size(), context.stream),
             "zeroing");
}

}  // namespace emblem::cuda
