#include "data/format/csv_types.h"

#include <algorithm>

#include "data/format/text_scan.h"
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

// The narrowest type that fits all values of column `at`.
void choose_type(const std::vector<std::vector<std::string>>& sample, size_t at,
                 const MissingTexts& missing, ColumnRequest& request) {
  bool integers = true, numbers = true, words = true, any = false;
  for (const std::vector<std::string>& row : sample) {
    if (at >= row.size() || row[at].empty() || missing.is_missing_number(row[at])) continue;
    const std::string& text = row[at];
    int64_t integer = 0;
    float number = 0;
    uint32_t word = 0;
    any = true;
    integers = integers && text.find('.') == std::string::npos && parse_integer(text, integer);
    numbers = numbers && parse_float(text, number);
    words = words && text.size() == 8 && scan_hex8(text.data(), word);
  }
  if (any && words && is_criteo_category_name(request.name)) {
    request.type = ColumnType::kInt64;
    request.hexadecimal = true;
  } else if (any && integers) {
    request.type = ColumnType::kInt64;
  } else {
    request.type = any && !numbers ? ColumnType::kText : ColumnType::kFloat;
  }
  request.na_is_missing = request.type != ColumnType::kText;
}

}  // namespace

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
  return "a quoted field is not closed on its line (line breaks within fields are not supported: "
         "close the quote, or replace line breaks in the file)";
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

std::vector<ColumnRequest> natural_csv_types(const std::vector<std::string>& names,
                                             const std::vector<config::Field>& fields,
                                             const MissingTexts& missing,
                                             const std::vector<std::vector<std::string>>& sample) {
  std::vector<ColumnRequest> requests;
  for (size_t i = 0; i < names.size(); ++i) {
    ColumnRequest request{.name = names[i]};
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const config::Field& f) {
      return f.input_name() == names[i] && f.has_input_type();
    });
    if (field != fields.end()) {
      request.type = type_of(field->input_type());
      request.na_is_missing = request.type == ColumnType::kFloat;
    } else {
      choose_type(sample, i, missing, request);
    }
    requests.push_back(request);
  }
  return requests;
}

void drop_plain_offsets(Column& column) {
  for (size_t row = 0; row < column.offsets.size(); ++row) {
    if (column.offsets[row] != static_cast<int32_t>(row)) return;
  }
  column.offsets.clear();
}

}  // namespace emblem
