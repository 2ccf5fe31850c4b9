#include "bench/collection/recorded_ranks.h"

#include <cstring>

namespace emblem {
namespace {

void copy_piece(const Context& context, const Piece& to, const void* from, size_t bytes) {
  EMBLEM_REQUIRE(to.bytes == bytes, "a recorded rank sends ", bytes, " bytes where ", to.bytes,
                 " are expected");
  if (bytes > 0) detail::copy(context, to.data, from, bytes);
}

}  // namespace

RecordedRanks::RecordedRanks(int size, std::vector<std::vector<RecordedRequests>> batches)
    : batches_(std::move(batches)) {
  for (int rank = 0; rank < size; ++rank) hosts_.push_back({"recorded", rank});
}

void RecordedRanks::begin_batch(int64_t batch) {
  batch_ = static_cast<size_t>(batch) % batches_.size();
  keys_come_next_ = true;
}

void RecordedRanks::do_exchange(const Context& context, std::span<const Piece> send,
                                std::span<const Piece> receive) {
  copy_piece(context, receive[0], send[0].data, send[0].bytes);
  const bool is_device = context.device != Device::kCpu;
  if (is_device && !keys_come_next_) return;
  for (size_t rank = 1; rank < receive.size(); ++rank) {
    const RecordedRequests& of = batches_[batch_][rank - 1];
    if (is_device)
      copy_piece(context, receive[rank], of.keys.data(),
                 static_cast<size_t>(of.keys.size()) * sizeof(int64_t));
    else
      copy_piece(context, receive[rank], of.counts.data(), of.counts.size() * sizeof(int32_t));
  }
  if (is_device) keys_come_next_ = false;
}

}  // namespace emblem
