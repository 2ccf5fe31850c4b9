#include "data/loader/read_ahead.h"

#include <utility>

#include "data/source/objects/download_queue.h"

namespace emblem {
namespace {

constexpr int64_t kMostPieces = 4096;  // asked for at a time
constexpr int64_t kPartsOfThread = 4;  // that wait for each download thread

}  // namespace

ReadAhead::ReadAhead(const Decoder& decoder, const DownloadQueue& queue, const PieceOrder& order,
                     int64_t epochs)
    : decoder_(decoder), queue_(queue), order_(order), epochs_(epochs) {}

void ReadAhead::advance(int64_t epoch, int64_t index) {
  if (std::pair(next_epoch_, next_index_) < std::pair(epoch, index)) {
    next_epoch_ = epoch;
    next_index_ = index;
  }
  while ((epochs_ == 0 || next_epoch_ < epochs_) &&
         queue_.pending() < kPartsOfThread * queue_.threads()) {
    const int64_t count = order_.count(next_epoch_);  // nearly that of the epochs before it
    if ((next_epoch_ - epoch) * count + next_index_ - index >= kMostPieces) return;
    if (next_index_ == count) {
      next_index_ = 0;
      ++next_epoch_;
      continue;
    }
    const FilePiece piece = order_.at(next_epoch_, next_index_++);
    decoder_.prefetch(piece.file, piece.range);
  }
}

}  // namespace emblem
