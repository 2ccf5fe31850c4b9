#include "data/format/columnar/declared_type.h"

#include <charconv>
#include <cmath>
#include <set>

#include "core/system/log.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

enum class Declared { kInteger, kNumber, kText, kMap };

struct Shape {
  Declared values = Declared::kText;
  int lists = 0;
};

Shape shape_of(config::FieldType declared) {
  switch (declared) {
    case config::INT32:
    case config::INT64:
      return {Declared::kInteger, 0};
    case config::FLOAT:
    case config::DOUBLE:
      return {Declared::kNumber, 0};
    case config::STRING:
      return {Declared::kText, 0};
    case config::ARRAY_INT32:
    case config::ARRAY_INT64:
      return {Declared::kInteger, 1};
    case config::ARRAY_FLOAT:
    case config::ARRAY_DOUBLE:
      return {Declared::kNumber, 1};
    case config::ARRAY_STRING:
      return {Declared::kText, 1};
    case config::ARRAY_ARRAY_INT32:
    case config::ARRAY_ARRAY_INT64:
      return {Declared::kInteger, 2};
    case config::ARRAY_ARRAY_FLOAT:
    case config::ARRAY_ARRAY_DOUBLE:
      return {Declared::kNumber, 2};
    case config::ARRAY_ARRAY_STRING:
      return {Declared::kText, 2};
    default:
      return {Declared::kMap, 1};
  }
}

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (!text.empty() && text.find_first_not_of("0123456789") == text.npos) return true;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && number == std::trunc(number);  // "9.0"
}

bool is_number(std::string_view text) {
  float number = 0;
  return parse_any_float(text, number);
}

bool has_values(const ColumnSpec& column, Declared declared) {
  const ValueType& values = column.values;
  switch (declared) {
    case Declared::kInteger:
      return values.kind != ValueKind::kFloat && values.kind != ValueKind::kDouble;
    case Declared::kNumber:
      return values.is_number();
    case Declared::kText:
      return false;
    case Declared::kMap:
      return true;
  }
  return true;
}

std::string described(const ColumnSpec& column) {
  std::string text = column.weighted ? "map" : name_of(column.values);
  for (int i = column.weighted ? 1 : 0; i < column.lists; ++i) text = "list of " + text;
  return text;
}

}  // namespace

std::string declared_value_problem(config::FieldType declared, std::string_view text) {
  const Declared values = shape_of(declared).values;
  text = without_spaces(text);
  const char* expected = nullptr;
  if (values == Declared::kInteger && !is_integer(text)) expected = "an integer";
  if (values == Declared::kNumber && !is_number(text)) expected = "a number";
  if (expected == nullptr) return {};
  return cat(in_quotes(text), " is not ", expected,
             ", as input_type: ", config::FieldType_Name(declared),
             " of data_config.input_fields says (text needs STRING, fractions need DOUBLE; without "
             "an input_type values are read as features need them)");
}

std::string declared_column_problem(config::FieldType declared, const ColumnSpec& column) {
  const Shape shape = shape_of(declared);
  if (column.values.kind == ValueKind::kUnknown) return {};
  const bool is_text = column.values.kind == ValueKind::kText;
  const bool is_map = shape.values == Declared::kMap;
  // The text of a row may hold a list or a map.
  if (is_text && column.lists == 0) return {};
  const bool has_shape = column.lists == shape.lists && column.weighted == is_map;
  if (has_shape && (is_text || has_values(column, shape.values))) return {};
  return cat("is ", described(column),
             ", but data_config.input_fields says input_type: ", config::FieldType_Name(declared),
             "; the column is read as it is: correct input_type, or remove it");
}

void warn_of_declared_types(const std::vector<ColumnRequest>& requests,
                            const std::vector<ColumnSpec>& columns, const std::string& source) {
  std::set<std::string> names;
  for (size_t i = 0; i < columns.size() && i < requests.size(); ++i) {
    if (!requests[i].declared || !names.insert(columns[i].name).second) continue;
    const std::string problem = declared_column_problem(*requests[i].declared, columns[i]);
    if (!problem.empty())
      log_warn(cat(source, ": column ", in_quotes(columns[i].name), " ", problem));
  }
}

}  // namespace emblem
