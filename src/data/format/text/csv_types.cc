#include "data/format/text/csv_types.h"

#include <algorithm>
#include <charconv>

#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

CsvField take_quoted_field(std::string_view& line, char delimiter, std::string& unescaped,
                           std::string_view& text) {
  bool doubled = false;
  size_t end = 1;
  while (true) {
    end = line.find('"', end);
    if (end == std::string_view::npos) return CsvField::kUnclosed;
    if (end + 1 >= line.size() || line[end + 1] != '"') break;
    doubled = true;
    end += 2;
  }
  text = line.substr(1, end - 1);
  if (doubled) {
    unescaped.clear();
    for (size_t i = 0; i < text.size(); ++i) {
      unescaped += text[i];
      if (text[i] == '"') ++i;
    }
    text = unescaped;
  }
  line.remove_prefix(end + 1);
  if (line.empty()) return CsvField::kLast;
  if (line.front() != delimiter) return CsvField::kTextAfterQuote;
  line.remove_prefix(1);
  return CsvField::kMoreFollow;
}

bool is_criteo_category_name(const std::string& name) {
  return name.size() > 1 && name[0] == 'C' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_written_as_id(std::string_view text) {
  if (text.starts_with('+')) return true;
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

CsvField take_csv_field(std::string_view& line, char delimiter, std::string& unescaped,
                        std::string_view& text) {
  if (!line.empty() && line.front() == '"') {
    return take_quoted_field(line, delimiter, unescaped, text);
  }
  const size_t end = line.find(delimiter);
  if (end == std::string_view::npos) {
    text = line;
    line = {};
    return CsvField::kLast;
  }
  text = line.substr(0, end);
  line.remove_prefix(end + 1);
  return CsvField::kMoreFollow;
}

std::string quote_problem(CsvField found) {
  if (found == CsvField::kTextAfterQuote)
    return "text follows the closing quote of a field (expected a delimiter; quotes within a "
           "quoted "
           "field are doubled)";
  return "a quoted field is not closed (expected a closing quote and a delimiter or a line end "
         "after "
         "it, within 64 KiB; quotes within a quoted field are doubled)";
}

std::vector<std::string> split_csv_line(std::string_view line, char delimiter) {
  std::vector<std::string> fields;
  std::string unescaped;
  CsvField found = CsvField::kMoreFollow;
  while (found == CsvField::kMoreFollow) {
    std::string_view text;
    found = take_csv_field(line, delimiter, unescaped, text);
    fields.emplace_back(text);
  }
  return fields;
}

bool pick_csv_fields(std::string_view line, char delimiter, size_t count,
                     std::span<const size_t> fields, std::vector<std::string>& values) {
  values.assign(fields.size(), "");
  std::string unescaped;
  CsvField found = CsvField::kMoreFollow;
  size_t at = 0;
  for (; found == CsvField::kMoreFollow; ++at) {
    std::string_view text;
    found = take_csv_field(line, delimiter, unescaped, text);
    if (found == CsvField::kUnclosed || found == CsvField::kTextAfterQuote) return false;
    for (size_t i = 0; i < fields.size(); ++i)
      if (fields[i] == at) values[i] = text;
  }
  if (at == count) return true;
  values.assign(fields.size(), "");
  return false;
}

ColumnType type_of(config::FieldType type) {
  switch (type) {
    case config::INT32:
    case config::INT64:
      return ColumnType::kInt64;
    case config::STRING:
      return ColumnType::kText;
    case config::FLOAT:
    case config::DOUBLE:
      return ColumnType::kFloat;
    default:
      return ColumnType::kText;  // lists and maps: features split them
  }
}

void CsvColumnKind::add(std::string_view text, const MissingTexts& missing) {
  if (text.empty() || missing.is_missing_number(text)) return;
  any = true;
  uint32_t word = 0;
  words = words && text.size() == 8 && scan_hex8(text.data(), word);
  if (!numbers) return;
  text = without_spaces(text);
  float number = 0;
  numbers = !text.empty() && !is_written_as_id(text) && parse_any_float(text, number);
  const bool is_whole = text.find_first_not_of("-0123456789") == text.npos;
  int64_t integer = 0;
  const char* const end = text.data() + text.size();
  const bool fits = is_whole && std::from_chars(text.data(), end, integer).ec == std::errc();
  if (is_whole && !fits) numbers = false;
  integers = integers && numbers && is_whole;
}

void CsvColumnKind::add(const CsvColumnKind& other) {
  any = any || other.any;
  numbers = numbers && other.numbers;
  integers = integers && other.integers && numbers;
  words = words && other.words;
}

ColumnSpec natural_csv_type(const std::string& name, const CsvColumnKind& kind,
                            NaturalTypes natural, ColumnRequest& request) {
  ColumnSpec spec{name, ColumnType::kText};
  const bool is_exact = natural == NaturalTypes::kExact;
  request.hexadecimal = kind.any && kind.words && !is_exact && is_criteo_category_name(name);
  if (request.hexadecimal || (kind.any && kind.integers)) {
    spec.type = ColumnType::kInt64;
  } else if (!kind.any || (kind.numbers && !is_exact)) {
    spec.type = ColumnType::kFloat;
  } else if (kind.numbers) {
    spec.stored = "double";
  }
  request.name = name;
  request.type = spec.type;
  request.na_is_missing = spec.type != ColumnType::kText || !spec.stored.empty();
  return spec;
}

}  // namespace emblem
