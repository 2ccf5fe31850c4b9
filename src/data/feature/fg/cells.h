// data/feature/fg/cells.h - inputs and output of an operator by cell: a cell is a row, or an
// element of a sequence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/feature/fg/operator.h"
#include "data/format/block.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"

namespace emblem {

// The cells that an operator computes and the rows that they belong to.
struct Cells {
  int64_t count = 0;
  bool are_elements = false;
  std::vector<int32_t> rows;          // row of each cell, when cells are elements
  std::vector<int32_t> first_of_row;  // [rows + 1], when they are elements
  std::vector<uint8_t> refused;       // by row: 1 where its cells have no values; empty: nowhere

  bool is_refused(int64_t cell) const {
    return !refused.empty() && refused[static_cast<size_t>(row_of(cell))] != 0;
  }
  int64_t row_of(int64_t cell) const {
    return are_elements ? rows[static_cast<size_t>(cell)] : cell;
  }
};

// Elements of the first input that is a sequence; else rows.
Cells cells_of(std::span<const Column* const> inputs, int64_t rows);

struct ValueRange {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

// The values of an input in each cell, as text or as numbers.
class CellReader {
 public:
  // Both outlive it. A constant has the same values in all cells.
  CellReader(const Column& column, const Cells& cells, bool is_constant);

  // None where the value is missing or text is empty.
  ValueRange values(int64_t cell) const;

  // Bytes of the texts of values; 0 where they are no text.
  int64_t text_bytes(const ValueRange& range) const;

  // The text of value `at`. Integers and numbers are written to `buffer`. "" when it is
  // missing.
  std::string_view text(size_t at, std::string& buffer) const;

  // NaN when the value is missing; false when it is text that is not a number.
  bool number(size_t at, double& value) const;

  // The same values as in the cell before.
  bool is_repeated(int64_t cell) const {
    return cell > 0 && (is_constant_ || (!is_sequence_ && cells_.are_elements &&
                                         cells_.row_of(cell) == cells_.row_of(cell - 1)));
  }

  // All elements of a row have the same values.
  bool is_of_row() const { return cells_.are_elements && (is_constant_ || !is_sequence_); }

  const Column& column() const { return column_; }

 private:
  ValueRange range_of(int64_t cell) const;
  bool is_missing(size_t at) const;

  const Column& column_;
  const Cells& cells_;
  bool is_constant_;
  bool is_sequence_;
};

// Fills the output of an operator cell by cell.
class CellWriter {
 public:
  CellWriter(Column& out, ColumnType type);

  // Throws kOutOfMemory beyond 4 GiB of text.
  void add(std::string_view text) {
    if (text.size() > UINT32_MAX - out_.text.size()) refuse_text();
    out_.text += text;
    out_.text_ends.push_back(static_cast<uint32_t>(out_.text.size()));
  }
  void add(int64_t id) { out_.ints.push_back(id); }
  void add(float number) { out_.floats.push_back(number); }
  // An id as text, or as the integer that it is where the output is integers; false when it is
  // none.
  bool add_id(std::string_view text);

  // Removes the values of the open cell.
  void clear_cell();
  void end_cell() { out_.offsets.push_back(static_cast<int32_t>(size())); }

  // After the last cell: drops offsets that say one value per cell, and marks sequences.
  void finish(const Cells& cells);

 private:
  [[noreturn]] static void refuse_text();
  size_t size() const;

  Column& out_;
};

// A column with one cell: `text` parted at the separators of `input`, as its type asks. Throws
// Error that names `feature` when a number is expected and found is another text.
Column constant_column(const std::string& text, const FgInput& input, const std::string& feature);

}  // namespace emblem
