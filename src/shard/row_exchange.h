// shard/row_exchange.h - exchanges of rows and gradients, in 32 or 16 bits.
#pragma once

#include "comm/communicator.h"
#include "core/math/half.h"
#include "shard/messages.h"

namespace emblem {

// Blocks [first, last) of each rank in Messages.
struct BlockRange {
  int64_t first = 0;
  int64_t last = 0;
};

// Keeps its memory. CPU memory. Used by one thread.
class RowExchange {
 public:
  // `precision` of floats between ranks, rounded to nearest.
  RowExchange(Communicator& ranks, DType precision) : ranks_(ranks), precision_(precision) {}

  // Messages `from` of every rank become those of `to` of all others. `floats` are the blocks with
  // floats, of which there are as many on both sides.
  void operator()(const Context& context, Messages& from, BlockRange floats_from, Messages& to,
                  BlockRange floats_to);

 private:
  void narrow(Messages& from, BlockRange floats);
  void widen(Messages& to, BlockRange floats);

  Communicator& ranks_;
  const DType precision_;
  Messages sent_, received_;  // in 16 bits: what comes before the floats, these, what comes after
};

}  // namespace emblem
