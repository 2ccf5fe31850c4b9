// data/format/csv_types.h - how a line of separated values falls into fields, and the type of
// columns for which none is configured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/format/csv_field.h"
#include "data/format/decoder.h"

namespace emblem {

enum class CsvField { kMoreFollow, kLast, kUnclosed, kTextAfterQuote };

// Takes the next field off the front of `line`. `text` is its value: of `line`, or of `unescaped`
// where the field is quoted and holds doubled quotes.
CsvField take_csv_field(std::string_view& line, char delimiter, std::string& unescaped,
                        std::string_view& text);

// What is wrong with a field that is kUnclosed or kTextAfterQuote.
std::string quote_problem(CsvField found);

std::vector<std::string> split_csv_line(std::string_view line, char delimiter);

// A request a column, with the types that `fields` give and else those that fit all sampled rows.
std::vector<ColumnRequest> natural_csv_types(const std::vector<std::string>& names,
                                             const std::vector<config::Field>& fields,
                                             const MissingTexts& missing,
                                             const std::vector<std::vector<std::string>>& sample);

ColumnType type_of(config::FieldType type);

// Drops offsets that say no more than one value a bag.
void drop_plain_offsets(Column& column);

}  // namespace emblem
