#include "data/format/csv_field.h"

#include <algorithm>
#include <cmath>

#include "data/format/text_scan.h"

namespace emblem {
namespace {

std::string not_a_number(std::string_view text) {
  return cat(quoted(text), " is not a number (expected a decimal number or an empty field)");
}

}  // namespace

std::string CsvFieldParser::add(std::string_view text, int64_t row) {
  if (!request_.separators.empty()) {
    std::string problem = add_values(text);
    if (problem.empty()) end_row();
    return problem;
  }
  switch (request_.type) {
    case ColumnType::kFloat:
      if (!parse_float(text, column_.floats[row])) return not_a_number(text);
      break;
    case ColumnType::kInt64:
      column_.ints[row] = 0;
      column_.missing[row] = text.empty();
      if (!text.empty() && !parse_key(text, column_.ints[row])) return not_a_key(text);
      break;
    case ColumnType::kText:
      add_text(text);
      break;
  }
  return {};
}

std::string CsvFieldParser::add_values(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(request_.separators), text.size());
    std::string problem = add_value(text.substr(0, end));
    if (!problem.empty()) return problem;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

void CsvFieldParser::end_row() {
  column_.offsets.push_back(static_cast<int32_t>(values_in(column_)));
}

std::string CsvFieldParser::add_value(std::string_view text) {
  if (text.empty()) return {};
  if (request_.weighted) {
    const size_t colon = text.rfind(':');
    float weight = 0;
    if (colon == std::string_view::npos || !parse_float(text.substr(colon + 1), weight) ||
        std::isnan(weight)) {
      return cat(quoted(text), " is not a weighted value (expected \"key:weight\")");
    }
    column_.weights.push_back(weight);
    text = text.substr(0, colon);
  }
  switch (request_.type) {
    case ColumnType::kFloat:
      column_.floats.push_back(0);
      if (!parse_float(text, column_.floats.back())) return not_a_number(text);
      break;
    case ColumnType::kInt64:
      column_.ints.push_back(0);
      if (!parse_key(text, column_.ints.back())) return not_a_key(text);
      break;
    case ColumnType::kText:
      add_text(text);
      break;
  }
  return {};
}

void CsvFieldParser::add_text(std::string_view text) {
  column_.text.append(text);
  column_.text_ends.push_back(static_cast<uint32_t>(column_.text.size()));
}

bool CsvFieldParser::parse_key(std::string_view text, int64_t& key) const {
  return request_.hexadecimal ? parse_hexadecimal(text, key) : parse_integer(text, key);
}

std::string CsvFieldParser::not_a_key(std::string_view text) const {
  return cat(quoted(text),
             request_.hexadecimal
                 ? " is not a category (expected a hexadecimal number or an empty field)"
                 : " is not an integer (expected a whole number of 64 bits or an empty "
                   "field; text needs input_type: STRING)");
}

size_t values_in(const Column& column) {
  switch (column.type) {
    case ColumnType::kFloat:
      return column.floats.size();
    case ColumnType::kInt64:
      return column.ints.size();
    case ColumnType::kText:
      break;
  }
  return column.text_ends.size();
}

}  // namespace emblem
