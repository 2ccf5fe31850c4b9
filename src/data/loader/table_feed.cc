#include "data/loader/table_feed.h"

#include <algorithm>
#include <utility>

#include "data/format/memory/table_file.h"
#include "emblem/error.h"

namespace emblem {

TableFeed::TableFeed(const DataSource& source, const std::vector<ColumnRequest>& requests,
                     NextTable next, int64_t piece_rows, int64_t first_piece)
    : name_(source.input),
      next_(std::move(next)),
      piece_rows_(piece_rows),
      skipped_pieces_(first_piece) {
  const std::shared_ptr<const ColumnTable> table = next_();
  EMBLEM_REQUIRE(table != nullptr, name_, " has no rows: its source gives no table");
  selection_ = make_table_decoder(source, &requests, {table})->selection();
  first_ = cut(table);
  sample_ = first_;
}

TableFeed::Pieces TableFeed::cut(std::shared_ptr<const ColumnTable> table) {
  Pieces pieces;
  std::vector<std::unique_ptr<ColumnarFile>> files;
  files.push_back(open_table(std::move(table), name_));
  const auto decoder = std::make_shared<ColumnarDecoder>(selection_, std::move(files),
                                                         FilePlace{.first_row = next_row_});
  const Extent rows = decoder->extent(0);
  next_row_ = rows.end;
  for (int64_t begin = rows.begin; begin < rows.end; begin += piece_rows_) {
    if (skipped_pieces_ > 0) {
      --skipped_pieces_;
      continue;
    }
    pieces.pieces.push_back({0, {begin, std::min(begin + piece_rows_, rows.end)}});
  }
  pieces.decoder = decoder;
  return pieces;
}

TableFeed::Pieces TableFeed::next() {
  Pieces pieces = std::exchange(first_, {});
  while (pieces.pieces.empty()) {
    std::shared_ptr<const ColumnTable> table = next_();
    if (table == nullptr) {
      EMBLEM_REQUIRE(skipped_pieces_ == 0, "the saved position is beyond the end of ", name_,
                     "; has the data changed?");
      next_row_ = 0;
      return {};
    }
    pieces = cut(std::move(table));
  }
  return pieces;
}

void TableFeed::sample(const RowSample& rows, const std::function<void(const Block&)>& take) const {
  Pieces pieces;
  {
    const std::lock_guard lock(mutex_);
    pieces = sample_;
  }
  if (pieces.pieces.empty()) return;
  DecodedPiece decoded;
  pieces.decoder->decode(0, pieces.pieces[0].range, rows, nullptr, decoded);
  take(decoded.block);
}

void TableFeed::drop_sample() {
  const std::lock_guard lock(mutex_);
  sample_ = {};
}

}  // namespace emblem
