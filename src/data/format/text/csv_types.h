// data/format/text/csv_types.h - how a line of separated values falls into fields, and the type of
// columns for which none is configured.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/format/decoder.h"
#include "data/format/text/csv_field.h"

namespace emblem {

enum class CsvField { kMoreFollow, kLast, kUnclosed, kTextAfterQuote };

// Takes the next field off the front of `line`. `text` is its value: of `line`, or of `unescaped`
// where the field is quoted and holds doubled quotes.
CsvField take_csv_field(std::string_view& line, char delimiter, std::string& unescaped,
                        std::string_view& text);

// What is wrong with a field that is kUnclosed or kTextAfterQuote.
std::string quote_problem(CsvField found);

std::vector<std::string> split_csv_line(std::string_view line, char delimiter);

// Sets values[i] to the field `fields[i]` of a line. False where a quote is not closed, or text
// follows it: the fields before it are set, all others are empty. False where the line does not
// have `count` fields: all values are empty.
bool pick_csv_fields(std::string_view line, char delimiter, size_t count,
                     std::span<const size_t> fields, std::vector<std::string>& values);

// Whether the text of a number says more than the number: "007", "-007", "+7".
bool is_written_as_id(std::string_view text);

// Which types fit all values of a column.
struct CsvColumnKind {
  bool any = false;  // there is a value
  // Numbers are not integers or numbers here where their text says more: ids like "007", "+7" and
  // whole numbers beyond an int64 are text.
  bool integers = true, numbers = true;
  bool words = true;  // 8 hexadecimal digits

  void add(std::string_view text, const MissingTexts& missing);
  void add(const CsvColumnKind& other);
};

// The narrowest type for a column, and with NaturalTypes::kExact what ColumnSpec::stored says.
ColumnSpec natural_csv_type(const std::string& name, const CsvColumnKind& kind,
                            NaturalTypes natural, ColumnRequest& request);

ColumnType type_of(config::FieldType type);

// Drops offsets that say no more than one value per bag.
template <class WithOffsets>
void drop_plain_offsets(WithOffsets& column) {
  for (size_t row = 0; row < column.offsets.size(); ++row)
    if (column.offsets[row] != static_cast<int32_t>(row)) return;
  column.offsets.clear();
}

}  // namespace emblem
