// data/format/csv_field.h - the text of one CSV field as values of a column. Shared by the decoder
// of CSV files and by requests to a server, so that both read the same text as the same values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/format/decoder.h"

namespace emblem {

// Adds to `column`, which it borrows along with `request`. Problems are returned as text ("":
// none); after one, the column may hold values of the field, which the caller removes or
// overwrites.
class CsvFieldParser {
 public:
  CsvFieldParser(const ColumnRequest& request, Column& column)
      : request_(request), column_(column) {}

  // A whole field. Without separators, floats, ints and missing must have an element for `row`.
  std::string add(std::string_view text, int64_t row);

  // For requests with separators: the values of the field, in the row that end_row() ends. Empty
  // values are skipped.
  std::string add_values(std::string_view text);
  void end_row();

 private:
  std::string add_value(std::string_view text);
  void add_text(std::string_view text);
  bool parse_key(std::string_view text, int64_t& key) const;
  std::string not_a_key(std::string_view text) const;

  const ColumnRequest& request_;
  Column& column_;
};

// The number of values that a column holds, in all rows.
size_t values_in(const Column& column);

}  // namespace emblem
