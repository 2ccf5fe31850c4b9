// data/loader/table_feed.h - the tables of a source that is asked for one after the other, cut into
// pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "data/format/columnar/columnar_decoder.h"
#include "data/format/memory/table.h"
#include "data/loader/piece_order.h"

namespace emblem {

class TableFeed {
 public:
  // Pieces of a table, in its order, and what decodes them. None at the end of an epoch.
  struct Pieces {
    std::shared_ptr<const Decoder> decoder;
    std::vector<FilePiece> pieces;
  };

  // Asks for the first table, which says what columns there are. Of the first epoch, the pieces
  // before `first_piece` are skipped. Throws Error where a column is not there, or no table.
  TableFeed(const DataSource& source, const std::vector<ColumnRequest>& requests, NextTable next,
            int64_t piece_rows, int64_t first_piece);

  const std::vector<ColumnSpec>& columns() const { return selection_->columns; }

  // Pieces of the next table that has rows. Called by one thread at a time.
  Pieces next();

  // Calls `take` with the first rows, until drop_sample was called. These may be called meanwhile.
  void sample(const RowSample& rows, const std::function<void(const Block&)>& take) const;
  void drop_sample();

 private:
  Pieces cut(std::shared_ptr<const ColumnTable> table);

  const std::string name_;
  const NextTable next_;
  const int64_t piece_rows_;
  std::shared_ptr<const ColumnSelection> selection_;
  int64_t skipped_pieces_;  // that are still to be skipped
  int64_t next_row_ = 0;    // row of the epoch
  Pieces first_;            // until it is given out
  mutable std::mutex mutex_;
  Pieces sample_;  // guarded by mutex_
};

}  // namespace emblem
