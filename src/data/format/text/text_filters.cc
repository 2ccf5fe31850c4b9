#include "data/format/text/text_filters.h"

#include <charconv>

#include "core/text/text.h"
#include "data/format/text/spelling.h"
#include "data/format/text/text_scan.h"
#include "data/format/text/time_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Integers as they are, bools as 1 and 0, other numbers as doubles; false for other text.
bool parse_number(std::string_view text, ValueBounds::Value& value) {
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
  if (const int truth = truth_of(text); truth >= 0) {
    value = int64_t{truth};
    return true;
  }
  double number = 0;
  if (!parse_double(text, number)) return false;
  value = number;
  return true;
}

// The values of a column of bools; of other text the text.
ValueBounds::Value bool_or_text(std::string_view text) {
  if (const int truth = truth_of(text); truth >= 0) return int64_t{truth};
  if (text == "1" || text == "1.0") return int64_t{1};
  if (text == "0" || text == "0.0") return int64_t{0};
  return std::string(text);
}

bool parse_time_or_date(std::string_view text, bool is_date, ValueBounds::Value& value) {
  Moment moment;
  TimeFormat format;
  if (!parse_moment(text, moment, format) || format.has_date != is_date) return false;
  value = moment;
  return true;
}

}  // namespace

TextFilters::TextFilters(const std::vector<std::string>& conditions,
                         const std::vector<std::string>& na_strings)
    : filters_(row_filters(conditions)), missing_(na_strings) {
  for (const RowFilter& filter : filters_) literals_.push_back(filter.literals());
}

void TextFilters::set_type(size_t i, ColumnType type, const std::string& source) {
  const bool is_text = type == ColumnType::kText;
  filters_[i].set_field({.name = filters_[i].column(),
                         .type = is_text ? LeafType::kText : LeafType::kDouble,
                         .type_text = is_text ? "text" : "a column of numbers"},
                        source);
  literals_[i] = is_text ? Literals::kText : Literals::kNumbers;
}

bool TextFilters::keep(std::span<const std::string> values, std::string& problem) const {
  for (size_t i = 0; i < filters_.size(); ++i)
    if (!keep(i, values[i], problem)) return false;
  return true;
}

bool TextFilters::keep(size_t i, std::string_view text, std::string& problem) const {
  ColumnRequest request;
  request.na_is_missing = literals_[i] != Literals::kText;
  if (text.empty() || missing_.is_missing(text, request)) return false;
  const RowFilter& filter = filters_[i];
  const std::string_view word = without_spaces(text);
  ValueBounds::Value value;
  const char* expected = nullptr;
  switch (literals_[i]) {
    case Literals::kText:
      return filter.keeps(std::string(text));
    case Literals::kBools:
      return filter.keeps(bool_or_text(word));
    case Literals::kNumbers:
      if (!parse_number(word, value)) expected = "number";
      break;
    case Literals::kDates:
      if (!parse_time_or_date(word, true, value)) expected = "date";
      break;
    case Literals::kTimes:
      if (!parse_time_or_date(word, false, value)) expected = "time";
      break;
  }
  if (expected != nullptr) {
    problem = cat("column ", printable(filter.column()), ": ", in_quotes(text), " is not a ",
                  expected, ", and the filter ", in_quotes(filter.text()), " compares ", expected,
                  "s (to compare text, put the values of the filter in quotes)");
    return false;
  }
  return !is_missing(value) && filter.keeps(value);
}

}  // namespace emblem
