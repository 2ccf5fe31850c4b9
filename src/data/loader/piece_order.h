// data/loader/piece_order.h - a data set cut into pieces, and their order in each epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "data/format/decoder.h"

namespace emblem {

struct Piece {
  int file = 0;
  Extent range;
};

enum class ReadOrder { kAsStored, kShuffled };

// Used by one thread at a time.
class PieceOrder {
 public:
  // Pieces of at most `piece_size` bytes or records (by decoder.unit()); none holds parts of two
  // files.
  PieceOrder(const Decoder& decoder, int64_t piece_size, ReadOrder order, uint64_t seed);

  int64_t count() const { return first_.back(); }
  int64_t size() const;  // of all pieces together, in the decoder's unit

  // The index-th piece of an epoch.
  Piece at(int64_t epoch, int64_t index);

 private:
  std::vector<Extent> extents_;  // by file
  std::vector<int64_t> first_;   // by file: the number of its first piece; then the count of all
  int64_t piece_size_;
  ReadOrder order_;
  uint64_t seed_;
  int64_t permuted_epoch_ = -1;
  std::vector<uint32_t> permutation_;
};

}  // namespace emblem
