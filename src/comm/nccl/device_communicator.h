// comm/nccl/device_communicator.h - what communicators for GPU memory share: the host communicator
// of the same ranks, which carries host memory, failures and what ranks agree on.
#pragma once

#include "comm/forwarded_ranks.h"

namespace emblem {

class DeviceCommunicator : public ForwardedRanks {
 protected:
  explicit DeviceCommunicator(Communicator& control) : ForwardedRanks(control) {}

  virtual void exchange_on_gpu(const Context& context, std::span<const Piece> send,
                               std::span<const Piece> receive) = 0;

  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) final {
    if (context.device == Device::kCpu) return inner_.exchange(context, send, receive);
    exchange_on_gpu(context, send, receive);
  }
};

}  // namespace emblem
