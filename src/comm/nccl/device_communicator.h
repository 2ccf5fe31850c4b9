// comm/nccl/device_communicator.h - what communicators for GPU memory share: the host communicator
// of the same ranks, which carries host memory, failures and what ranks agree on.
#pragma once

#include "comm/communicator.h"

namespace emblem {

class DeviceCommunicator : public Communicator {
 public:
  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  const std::vector<RankHost>& hosts() const override { return control_.hosts(); }
  void fail(const std::string& reason) noexcept override { control_.fail(reason); }
  void check() const override { control_.check(); }

 protected:
  explicit DeviceCommunicator(Communicator& control) : control_(control) {}

  virtual void exchange_on_gpu(const Context& context, std::span<const Piece> send,
                               std::span<const Piece> receive) = 0;

  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) final {
    if (context.device == Device::kCpu) return control_.exchange(context, send, receive);
    exchange_on_gpu(context, send, receive);
  }

  Communicator& control_;  // outlives this
};

}  // namespace emblem
