#include "data/loader/read_ahead.h"

#include <algorithm>
#include <limits>

#include "core/text.h"
#include "data/source/remote_storage.h"

namespace emblem {
namespace {

constexpr int64_t kMostPieces = 4096;  // asked for at a time
constexpr int64_t kPartsOfThread = 4;  // that wait for each download thread

}  // namespace

ReadAhead::ReadAhead(const Decoder& decoder, const PieceOrder& order, int64_t epochs)
    : decoder_(decoder),
      order_(order),
      end_(epochs > 0 ? epochs * order.count() : std::numeric_limits<int64_t>::max()) {}

void ReadAhead::advance(int64_t epoch, int64_t index) {
  const DownloadQueue& queue = remote_storage().queue();
  const int64_t current = epoch * order_.count() + index;
  next_ = std::max(next_, current);
  while (next_ < end_ && next_ - current < kMostPieces &&
         queue.pending() < kPartsOfThread * queue.threads()) {
    const Piece piece = order_.at(next_ / order_.count(), next_ % order_.count());
    decoder_.prefetch(piece.file, piece.range);
    ++next_;
  }
}

bool has_remote_inputs(const std::string& inputs) {
  for (const std::string& item : split(inputs, ','))
    if (is_object_uri(trim(item))) return true;
  return false;
}

}  // namespace emblem
