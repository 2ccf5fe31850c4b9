// data/feature/row_marks.h - rows of a decoded piece that turn out to be bad while its columns
// become features.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/format/decoder.h"

namespace emblem {

// Adds bad rows to the piece's own, each once: its first problem is the one that is reported.
class RowMarks {
 public:
  explicit RowMarks(DecodedPiece& piece) : piece_(piece) {}

  // `message` is called for rows that were not marked before.
  template <class Message>
  void add(int64_t row, Message&& message) {
    if (bad_.empty()) bad_.assign(static_cast<size_t>(piece_.block.rows), 0);
    if (std::exchange(bad_[static_cast<size_t>(row)], 1) != 0) return;
    piece_.bad.add(piece_.positions[static_cast<size_t>(row)], message());
  }

  // Removes the marked rows from `batch` and from the positions of the piece.
  void drop_rows(Batch& batch) const;

  // Puts `blank`, a batch of one row, in the place of every marked row, and of every row that the
  // decoder could not read. The rows of the piece are in the order of their positions.
  void blank_rows(const Batch& blank, Batch& batch) const;

 private:
  DecodedPiece& piece_;
  std::vector<uint8_t> bad_;  // by row; empty: none
};

}  // namespace emblem
