// data/loader/piece_order.h - a data set cut into pieces, and their order in each epoch.
#pragma once

#include <cstdint>
#include <utility>
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
  // files, or of two parts of a file. Where the decoder reads forward, the pieces of a part follow
  // each other in every order.
  PieceOrder(const Decoder& decoder, int64_t piece_size, ReadOrder order, uint64_t seed);

  int64_t count() const { return count_; }
  int64_t size() const { return size_; }  // of all pieces together, in the decoder's unit

  // The index-th piece of an epoch.
  Piece at(int64_t epoch, int64_t index);

  // How many pieces from the index-th one on are best decoded by one thread, one after the other.
  int64_t run_length(int64_t epoch, int64_t index);

 private:
  // Pieces that stay together: those of a part; or one, where each is decoded on its own and the
  // order is random.
  struct Run {
    int file = 0;
    Extent range;
    int64_t pieces = 0;
  };

  // The position in runs_, and that of the index-th piece in its run.
  std::pair<size_t, int64_t> find(int64_t epoch, int64_t index);
  void permute(int64_t epoch);

  int64_t piece_size_;
  ReadOrder order_;
  uint64_t seed_;
  bool reads_forward_ = false;
  int64_t count_ = 0, size_ = 0;
  std::vector<Run> runs_;  // as stored
  int64_t permuted_epoch_ = -1;
  std::vector<uint32_t> permutation_;  // of runs_
  std::vector<int64_t> first_;         // by place in the permutation: the first piece; then count_
};

}  // namespace emblem
