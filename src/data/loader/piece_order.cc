#include "data/loader/piece_order.h"

#include <algorithm>
#include <numeric>

#include "emblem/error.h"

namespace emblem {

PieceOrder::PieceOrder(const Decoder& decoder, int64_t piece_size, ReadOrder order, uint64_t seed)
    : piece_size_(piece_size), order_(order), seed_(seed) {
  for (int file = 0; file < static_cast<int>(decoder.files().size()); ++file) {
    for (const Extent& part : decoder.parts(file)) {
      const int64_t size = part.end - part.begin;
      const int64_t pieces = (size + piece_size - 1) / piece_size;
      count_ += pieces;
      size_ += size;
      EMBLEM_REQUIRE(count_ < (int64_t{1} << 32), "the data set has ", count_,
                     " pieces; expected fewer than 2^32: use a larger batch");
      if (decoder.reads_forward() || order == ReadOrder::kAsStored) {
        runs_.push_back({file, part, pieces});
        continue;
      }
      for (int64_t begin = part.begin; begin < part.end; begin += piece_size)
        runs_.push_back({file, {begin, std::min(begin + piece_size, part.end)}, 1});
    }
  }
  reads_forward_ = decoder.reads_forward();
  if (order == ReadOrder::kAsStored) permute(0);
}

void PieceOrder::permute(int64_t epoch) {
  permutation_.resize(runs_.size());
  std::iota(permutation_.begin(), permutation_.end(), 0u);
  if (order_ == ReadOrder::kShuffled) {
    shuffle_items(permutation_,
                  Random{seed_, mix64(0x7069656365730000ull + static_cast<uint64_t>(epoch))});
  }
  first_.assign(1, 0);
  for (const uint32_t run : permutation_) first_.push_back(first_.back() + runs_[run].pieces);
  permuted_epoch_ = epoch;
}

std::pair<size_t, int64_t> PieceOrder::find(int64_t epoch, int64_t index) {
  if (order_ == ReadOrder::kShuffled && permuted_epoch_ != epoch) permute(epoch);
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  const auto place = static_cast<size_t>(next - first_.begin() - 1);
  return {permutation_[place], index - first_[place]};
}

Piece PieceOrder::at(int64_t epoch, int64_t index) {
  const auto [run, piece] = find(epoch, index);
  const Extent& range = runs_[run].range;
  const int64_t begin = range.begin + piece * piece_size_;
  return {runs_[run].file, {begin, std::min(begin + piece_size_, range.end)}};
}

int64_t PieceOrder::run_length(int64_t epoch, int64_t index) {
  if (!reads_forward_) return 1;
  const auto [run, piece] = find(epoch, index);
  return runs_[run].pieces - piece;
}

}  // namespace emblem
