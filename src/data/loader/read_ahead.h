// data/loader/read_ahead.h - fetches remote files in the order in which a loader will read them.
#pragma once

#include <cstdint>

#include "data/format/decoder.h"
#include "data/loader/piece_order.h"

namespace emblem {

class DownloadQueue;

// Used by one thread at a time.
class ReadAhead {
 public:
  // `decoder` and `queue`, which fetches its files, outlive this; `epochs` 0: without end.
  ReadAhead(const Decoder& decoder, const DownloadQueue& queue, const PieceOrder& order,
            int64_t epochs);

  // A piece is about to be decoded: asks for those that follow it, as many as keep the download
  // threads busy.
  void advance(int64_t epoch, int64_t index);

 private:
  const Decoder& decoder_;
  const DownloadQueue& queue_;
  PieceOrder order_;                         // an own one: it remembers the order of one epoch
  int64_t epochs_;                           // 0: without end
  int64_t next_epoch_ = 0, next_index_ = 0;  // the first piece that was not asked for yet
};

}  // namespace emblem
