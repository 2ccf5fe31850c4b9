#include "data/loader/piece_order.h"

#include <algorithm>
#include <numeric>

#include "emblem/error.h"

namespace emblem {

PieceOrder::PieceOrder(const Decoder& decoder, int64_t piece_size, ReadOrder order, uint64_t seed)
    : first_{0}, piece_size_(piece_size), order_(order), seed_(seed) {
  for (size_t file = 0; file < decoder.files().size(); ++file) {
    const Extent extent = decoder.extent(static_cast<int>(file));
    extents_.push_back(extent);
    first_.push_back(first_.back() + (extent.end - extent.begin + piece_size - 1) / piece_size);
  }
  EMBLEM_REQUIRE(first_.back() < (int64_t{1} << 32), "the data set has ", first_.back(),
                 " pieces; expected fewer than 2^32: use a larger batch");
}

int64_t PieceOrder::size() const {
  int64_t size = 0;
  for (const Extent& extent : extents_) size += extent.end - extent.begin;
  return size;
}

Piece PieceOrder::at(int64_t epoch, int64_t index) {
  if (order_ == ReadOrder::kShuffled) {
    if (permuted_epoch_ != epoch) {
      permutation_.resize(static_cast<size_t>(count()));
      std::iota(permutation_.begin(), permutation_.end(), 0u);
      shuffle_items(permutation_,
                    Random{seed_, mix64(0x7069656365730000ull + static_cast<uint64_t>(epoch))});
      permuted_epoch_ = epoch;
    }
    index = permutation_[static_cast<size_t>(index)];
  }
  const auto next = std::upper_bound(first_.begin(), first_.end(), index);
  const auto file = static_cast<size_t>(next - first_.begin() - 1);
  const int64_t begin = extents_[file].begin + (index - first_[file]) * piece_size_;
  return {static_cast<int>(file), {begin, std::min(begin + piece_size_, extents_[file].end)}};
}

}  // namespace emblem
