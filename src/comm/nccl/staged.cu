#include <algorithm>

#include "comm/nccl/device_communicator.h"
#include "comm/nccl/staged.h"
#include "core/device/stream.h"
#include "core/memory/pinned.h"

namespace emblem::cuda {
namespace {

// Pieces next to each other in pinned memory, in the order of ranks.
class StagingBuffer {
 public:
  // Returns where the pieces are. An own piece has no place: it does not leave the GPU.
  std::span<const Piece> place(std::span<const Piece> pieces, int own) {
    placed_.assign(pieces.size(), Piece{});
    size_t bytes = 0;
    for (size_t r = 0; r < pieces.size(); ++r)
      if (static_cast<int>(r) != own) bytes += pieces[r].bytes;
    if (memory_ == nullptr || memory_->bytes() < bytes) {
      const size_t before = memory_ == nullptr ? size_t{1} << 16 : memory_->bytes();
      memory_.reset();
      memory_ = std::make_unique<PinnedMemory>(std::max(bytes, 2 * before));
    }
    char* next = memory_->data();
    for (size_t r = 0; r < pieces.size(); ++r) {
      if (static_cast<int>(r) == own) continue;
      placed_[r] = {next, pieces[r].bytes};
      next += pieces[r].bytes;
    }
    return placed_;
  }

 private:
  std::unique_ptr<PinnedMemory> memory_;
  std::vector<Piece> placed_;
};

bool follows(const Piece& piece, const Piece& before) {
  return static_cast<char*>(before.data) + before.bytes == piece.data;
}

// One copy for pieces that are next to each other on both sides.
void copy_all(const Context& context, std::span<const Piece> to, std::span<const Piece> from) {
  Piece target, source;
  for (size_t r = 0; r < to.size(); ++r) {
    if (to[r].bytes == 0 || from[r].bytes == 0) continue;  // the own one is in no staging buffer
    if (target.bytes > 0 && follows(to[r], target) && follows(from[r], source)) {
      target.bytes += to[r].bytes;
      source.bytes += to[r].bytes;
      continue;
    }
    if (target.bytes > 0) copy_async(context, target.data, source.data, target.bytes);
    target = to[r];
    source = {from[r].data, to[r].bytes};
  }
  if (target.bytes > 0) copy_async(context, target.data, source.data, target.bytes);
}

class StagedCommunicator : public DeviceCommunicator {
 public:
  explicit StagedCommunicator(Communicator& control) : DeviceCommunicator(control) {}

  const char* transport() const override { return "staged"; }

 protected:
  void exchange_on_gpu(const Context& context, std::span<const Piece> send,
                       std::span<const Piece> receive) override {
    arrived_.synchronize();  // the exchange before, perhaps on another stream, is done
    const auto own = static_cast<size_t>(rank());
    if (send[own].bytes > 0)
      copy_async(context, receive[own].data, send[own].data, send[own].bytes);
    const std::span<const Piece> staged = to_send_.place(send, rank());
    const std::span<const Piece> received = to_receive_.place(receive, rank());
    copy_all(context, staged, send);
    context.synchronize();
    inner_.exchange(Context{}, staged, received);
    copy_all(context, receive, received);
    arrived_.record(context.stream);
  }

 private:
  StagingBuffer to_send_, to_receive_;
  Event arrived_;  // received pieces have left the staging buffer
};

}  // namespace

std::unique_ptr<Communicator> stage_through_host(Communicator& control) {
  return std::make_unique<StagedCommunicator>(control);
}

}  // namespace emblem::cuda
