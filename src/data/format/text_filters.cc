#include "data/format/text_filters.h"

#include <charconv>
#include <cmath>

#include "core/text.h"
#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Integers as they are, other numbers as floats; false for other text.
bool parse_value(std::string_view text, ValueBounds::Value& value) {
  text = without_spaces(text);
  const char* const end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && at == end) {
    value = integer;
    return true;
  }
  uint64_t large = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, large);
      error == std::errc() && at == end) {
    value = large;
    return true;
  }
  float number = 0;
  if (!parse_any_float(text, number)) return false;
  value = static_cast<double>(number);
  return true;
}

}  // namespace

TextFilters::TextFilters(const std::vector<std::string>& conditions,
                         const std::vector<std::string>& na_strings)
    : filters_(row_filters(conditions)), missing_(na_strings) {
  for (const RowFilter& filter : filters_) are_numbers_.push_back(filter.has_numbers());
}

void TextFilters::set_type(size_t i, ColumnType type, const std::string& source) {
  const bool is_text = type == ColumnType::kText;
  filters_[i].set_field({.name = filters_[i].column(),
                         .type = is_text ? LeafType::kText : LeafType::kDouble,
                         .type_text = is_text ? "text" : "a column of numbers"},
                        source);
  are_numbers_[i] = !is_text;
}

bool TextFilters::keep(std::span<const std::string> values, std::string& problem) const {
  for (size_t i = 0; i < filters_.size(); ++i)
    if (!keep(i, values[i], problem)) return false;
  return true;
}

bool TextFilters::keep(size_t i, std::string_view text, std::string& problem) const {
  ColumnRequest request;
  request.na_is_missing = are_numbers_[i];
  if (text.empty() || missing_.is_missing(text, request)) return false;
  if (!are_numbers_[i]) return filters_[i].keeps(std::string(text));
  ValueBounds::Value value;
  if (!parse_value(text, value)) {
    problem = cat("column ", printable(filters_[i].column()), ": ", in_quotes(text),
                  " is not a number, and the filter ", in_quotes(filters_[i].text()),
                  " compares numbers (to compare text, put the values of the filter in quotes)");
    return false;
  }
  const auto* number = std::get_if<double>(&value);
  return (number == nullptr || !std::isnan(*number)) && filters_[i].keeps(value);
}

}  // namespace emblem
