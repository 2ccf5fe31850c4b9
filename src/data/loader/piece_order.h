// data/loader/piece_order.h - a data set cut into pieces, their order in each epoch, and the share
// that one stream reads of it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "data/format/decoder.h"

namespace emblem {

struct FilePiece {
  int file = 0;
  Extent range;
};

enum class ReadOrder { kAsStored, kShuffled };

// One of the streams among which the pieces of every epoch are dealt out.
struct StreamShare {
  int64_t stream = 0;
  int64_t streams = 1;
};

// The size of a piece so that each of `streams` has several where the data set has that many bytes
// or records; `largest` at most, and with one stream always.
int64_t piece_size_for(const Decoder& decoder, int64_t largest, int64_t streams);

// Used by one thread at a time.
class PieceOrder {
 public:
  // Pieces of at most `piece_size` bytes or records (by decoder.unit()); none holds parts of two
  // files, or of two parts of a file. Stream s of L has pieces s, s + L, s + 2 L, ... of an order
  // of all that depends on the seed and the epoch alone. Where the decoder reads forward, what is
  // ordered and dealt out are not pieces but runs of them that follow each other in a part: whole
  // parts, or shorter ones where there are few parts for L streams.
  PieceOrder(const Decoder& decoder, int64_t piece_size, ReadOrder order, uint64_t seed,
             StreamShare share = {});

  // Whether the data set has no piece at all, for no stream.
  bool has_no_data() const { return runs_.empty(); }

  // Pieces of this stream in an epoch, and their size in the decoder's unit. Either all epochs
  // have pieces or none has.
  int64_t count(int64_t epoch);
  int64_t size(int64_t epoch);

  // The index-th piece of this stream in an epoch.
  FilePiece at(int64_t epoch, int64_t index);

  // The number of the run that has it, in the order as stored.
  int64_t run_number(int64_t epoch, int64_t index);

  // How many pieces from the index-th one on are best decoded by one thread, one after the other.
  int64_t run_length(int64_t epoch, int64_t index);

 private:
  // Pieces that stay together.
  struct Run {
    int file = 0;
    Extent range;
    int64_t pieces = 0;
  };

  int64_t largest_run(const Decoder& decoder) const;
  void deal(int64_t epoch);
  const Run& run_at(size_t place) const { return runs_[own_[place]]; }
  // The place in own_ of the run that has the index-th piece, and the piece's number in it.
  std::pair<size_t, int64_t> find(int64_t epoch, int64_t index);

  int64_t piece_size_;
  ReadOrder order_;
  uint64_t seed_;
  StreamShare share_;
  bool reads_forward_ = false;
  std::vector<Run> runs_;  // runs of the data set, as stored
  int64_t dealt_epoch_ = -1;
  std::vector<uint32_t> own_;   // this stream's runs in the order of that epoch
  std::vector<int64_t> first_;  // by place in own_: the first piece; then their number
};

}  // namespace emblem
