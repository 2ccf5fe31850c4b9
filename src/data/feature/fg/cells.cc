#include "data/feature/fg/cells.h"

#include <charconv>
#include <cmath>

#include "data/format/decoder.h"
#include "data/format/text/csv_field.h"
#include "emblem/error.h"

namespace emblem {

Cells cells_of(std::span<const Column* const> inputs, int64_t rows) {
  Cells cells;
  cells.count = rows;
  for (const Column* column : inputs) {
    if (column == nullptr || column->sequence_offsets.empty()) continue;
    cells.are_elements = true;
    cells.first_of_row.assign(column->sequence_offsets.begin(), column->sequence_offsets.end());
    cells.count = cells.first_of_row.back();
    cells.rows.resize(static_cast<size_t>(cells.count));
    for (int64_t row = 0; row < rows; ++row) {
      for (int32_t i = cells.first_of_row[row]; i < cells.first_of_row[row + 1]; ++i)
        cells.rows[static_cast<size_t>(i)] = static_cast<int32_t>(row);
    }
    return cells;
  }
  return cells;
}

CellReader::CellReader(const Column& column, const Cells& cells, bool is_constant)
    : column_(column),
      cells_(cells),
      is_constant_(is_constant),
      is_sequence_(!column.sequence_offsets.empty()) {}

ValueRange CellReader::range_of(int64_t cell) const {
  int64_t at = cell;
  if (is_constant_) {
    at = 0;
  } else if (is_sequence_) {
    // Another sequence may be shorter or longer than the one that has the cells.
    const int64_t row = cells_.row_of(cell);
    const int64_t element = cell - cells_.first_of_row[static_cast<size_t>(row)];
    at = column_.sequence_offsets[row] + element;
    if (at >= column_.sequence_offsets[row + 1]) return {};
  } else {
    at = cells_.row_of(cell);
  }
  if (column_.offsets.empty()) return {static_cast<size_t>(at), static_cast<size_t>(at) + 1};
  return {static_cast<size_t>(column_.offsets[at]), static_cast<size_t>(column_.offsets[at + 1])};
}

bool CellReader::is_missing(size_t at) const {
  return is_missing_at(column_, at);
}

ValueRange CellReader::values(int64_t cell) const {
  if (cells_.is_refused(cell)) return {};
  const ValueRange range = range_of(cell);
  return range.size() == 1 && is_missing(range.begin) ? ValueRange{} : range;
}

int64_t CellReader::text_bytes(const ValueRange& range) const {
  if (column_.type != ColumnType::kText || range.empty()) return 0;
  const int64_t before = range.begin == 0 ? 0 : column_.text_ends[range.begin - 1];
  return column_.text_ends[range.end - 1] - before;
}

std::string_view CellReader::text(size_t at, std::string& buffer) const {
  if (column_.type == ColumnType::kText) return text_at(column_, at);
  if (is_missing(at)) return {};
  buffer.clear();
  if (column_.type == ColumnType::kInt64) {
    write_integer(column_.ints[at], buffer);
  } else {
    write_number(column_.floats[at], buffer);
  }
  return buffer;
}

bool CellReader::number(size_t at, double& value) const {
  if (column_.type == ColumnType::kText) {
    float parsed = 0;
    if (!parse_float(text_at(column_, at), parsed)) return false;
    value = static_cast<double>(parsed);
    return true;
  }
  if (is_missing(at)) {
    value = std::nan("");
  } else {
    value = column_.type == ColumnType::kInt64 ? static_cast<double>(column_.ints[at])
                                               : static_cast<double>(column_.floats[at]);
  }
  return true;
}

CellWriter::CellWriter(Column& out, ColumnType type) : out_(out) {
  out.type = type;
  out.floats.clear();
  out.ints.clear();
  out.text.clear();
  out.text_ends.clear();
  out.missing.clear();
  out.weights.clear();
  out.sequence_offsets.clear();
  out.offsets.assign(1, 0);
}

void CellWriter::refuse_text() {
  throw Error(ErrorCode::kOutOfMemory,
              "the texts of a computed feature have more than 4 GiB in a batch; lower the batch "
              "size");
}

size_t CellWriter::size() const { return values_in(out_); }

bool CellWriter::add_id(std::string_view text) {
  if (out_.type == ColumnType::kText) {
    add(text);
    return true;
  }
  int64_t id = 0;
  if (!parse_integer(text, id)) return false;
  add(id);
  return true;
}

void CellWriter::clear_cell() {
  const auto begin = static_cast<size_t>(out_.offsets.back());
  switch (out_.type) {
    case ColumnType::kFloat:
      return out_.floats.resize(begin);
    case ColumnType::kInt64:
      return out_.ints.resize(begin);
    case ColumnType::kText:
      break;
  }
  out_.text_ends.resize(begin);
  out_.text.resize(begin == 0 ? 0 : out_.text_ends.back());
}

void CellWriter::finish(const Cells& cells) {
  const size_t count = out_.offsets.size() - 1;
  bool is_plain = size() == count;
  for (size_t i = 0; i < count && is_plain; ++i)
    is_plain = out_.offsets[i] == static_cast<int32_t>(i);
  if (is_plain) out_.offsets.clear();
  if (cells.are_elements)
    out_.sequence_offsets.assign(cells.first_of_row.begin(), cells.first_of_row.end());
}

Column constant_column(const std::string& text, const FgInput& input, const std::string& feature) {
  Column column;
  CellWriter writer(column, input.type);
  size_t begin = 0;
  while (begin <= text.size() && !text.empty()) {
    const size_t end = std::min(text.find_first_of(input.separators, begin), text.size());
    const std::string_view value = std::string_view(text).substr(begin, end - begin);
    if (input.type == ColumnType::kText) {
      writer.add(value);
    } else {
      float number = 0;
      EMBLEM_REQUIRE(parse_float(value, number), "feature \"", feature, "\": the constant ",
                     in_quotes(value), " is not a number");
      writer.add(number);
    }
    begin = end + 1;
  }
  writer.end_cell();
  return column;
}

}  // namespace emblem
