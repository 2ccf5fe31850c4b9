#include "init/column_profile.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/hash.h"
#include "data/format/csv_field.h"
#include "data/format/text_scan.h"
#include "init/lower_case.h"

namespace emblem {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a run of digits off the front of `text` and returns their number.
size_t take_digits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  text.remove_prefix(count);
  return count;
}

// "3,14", "-0,5", "1.234,56"
bool is_decimal_comma(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos || text.find(',', comma + 1) != std::string_view::npos)
    return false;
  std::string_view fraction = text.substr(comma + 1);
  std::string_view whole = text.substr(0, comma);
  if (!whole.empty() && (whole[0] == '-' || whole[0] == '+')) whole.remove_prefix(1);
  const bool digits =
      std::all_of(whole.begin(), whole.end(), [](char c) { return is_digit(c) || c == '.'; });
  return !whole.empty() && digits && take_digits(fraction) > 0 && fraction.empty();
}

// "1e39": a decimal number, but too large for a float.
bool is_out_of_range(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc::result_out_of_range && end == text.data() + text.size();
}

// "05064", but not "0".
bool has_leading_zero(std::string_view text) {
  return text.size() > 1 && text[0] == '0' && std::all_of(text.begin(), text.end(), is_digit);
}

void add_to_list(std::string_view text, ListProfile& list) {
  if (text.find(list.separator) != std::string_view::npos) ++list.fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find(list.separator), text.size());
    if (end > 0) {
      ++list.values;
      list.distinct.add(hash_string(text.substr(0, end)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

void Moments::add(double value) {
  const double before = static_cast<double>(count_++);
  const double n = static_cast<double>(count_);
  const double delta = value - mean_;
  const double step = delta / n;
  const double term = delta * step * before;
  mean_ += step;
  third_ += term * step * (n - 2) - 3 * step * second_;
  second_ += term;
}

double Moments::deviation() const {
  return count_ == 0 ? 0 : std::sqrt(second_ / static_cast<double>(count_));
}

double Moments::skewness() const {
  if (count_ == 0 || !(second_ > 0)) return 0;
  return std::sqrt(static_cast<double>(count_)) * third_ / std::pow(second_, 1.5);
}

bool is_default_absent_text(std::string_view text) {
  return MissingTexts({}).is_missing_number(text);
}

bool is_absent_text(std::string_view text) {
  static constexpr std::string_view kTexts[] = {
      "?",    "-",    "--",   ".",        "*",         "na",      "n/a",     "n.a.",    "#n/a",
      "<na>", "nil",  "null", "none",     "nan",       "-nan",    "\\n",     "missing", "unknown",
      "inf",  "+inf", "-inf", "infinity", "-infinity", "#value!", "#div/0!", "#num!",   "#ref!"};
  if (text.size() > 9) return false;
  const std::string lower = lower_case(text);
  return std::find(std::begin(kTexts), std::end(kTexts), lower) != std::end(kTexts);
}

bool is_date(std::string_view text) {
  const size_t first = take_digits(text);
  if (first == 0 || first > 4 || text.empty()) return false;
  const char separator = text[0];
  if (separator != '-' && separator != '/' && separator != '.') return false;
  text.remove_prefix(1);
  const size_t second = take_digits(text);
  if (second == 0 || second > 2 || text.empty() || text[0] != separator) return false;
  text.remove_prefix(1);
  const size_t third = take_digits(text);
  const bool year_first = first == 4 && third >= 1 && third <= 2;
  const bool year_last = first <= 2 && (third == 2 || third == 4);
  if (!year_first && !year_last) return false;
  return text.empty() || text[0] == ' ' || text[0] == 'T';
}

void ColumnProfile::add_text(std::string_view field) {
  ++rows;
  if (field.empty()) {
    ++missing;
    return;
  }
  const std::string_view text = without_spaces(field);
  list_value(text);
  float number = 0;
  const bool is_number = parse_float(text, number);
  if (text.empty() || (is_number && std::isnan(number)) || is_absent_text(text)) {
    ++absent[std::string(text)];
    return;
  }
  distinct.add(hash_string(text));
  padded += text.size() != field.size();
  int64_t integer = 0;
  if (is_number) {
    add_to_numbers(number);
    const bool whole = parse_integer(text, integer);
    integers += whole;
    decimal_integers += whole && text.find('.') != std::string_view::npos;
    leading_zeros += whole && has_leading_zero(text);
    if (whole) note_order(integer);
    return;
  }
  note_other_text(text);
  dates += is_date(text);
  decimal_commas += is_decimal_comma(text);
  for (ListProfile& list : lists) add_to_list(text, list);
}

void ColumnProfile::add_number(double value) {
  if (std::isnan(value)) {
    add_missing();
    return;
  }
  ++rows;
  add_to_numbers(value);
  distinct.add(hash_of_integer(static_cast<int64_t>(std::bit_cast<uint64_t>(value))));
}

void ColumnProfile::add_key(int64_t key) {
  ++rows;
  ++integers;
  add_to_numbers(static_cast<double>(key));
  note_order(key);
  distinct.add(hash_of_integer(key));
}

void ColumnProfile::add_missing() {
  ++rows;
  ++missing;
}

void ColumnProfile::add_list_text(std::string_view text) {
  ++rows;
  distinct.add(hash_string(text));
}

void ColumnProfile::add_list(int64_t length, int64_t added) {
  rows -= added - 1;
  missing += added == 0;
  bags += length != 1;
  if (length > 0) shortest_list = std::min(shortest_list, length);
  longest_list = std::max(longest_list, length);
}

int64_t ColumnProfile::present() const {
  int64_t count = rows - missing;
  for (const auto& [text, times] : absent) count -= times;
  return count;
}

double ColumnProfile::missing_share() const {
  return rows == 0 ? 0 : 1 - static_cast<double>(present()) / static_cast<double>(rows);
}

int64_t ColumnProfile::distinct_count() const {
  const auto estimate = static_cast<int64_t>(distinct.estimate() + 0.5);
  return bags > 0 ? estimate : std::min(estimate, present());
}

void ColumnProfile::add_to_numbers(double value) {
  ++numbers;
  min = std::min(min, value);
  max = std::max(max, value);
  moments.add(value);
  log_moments.add(std::log1p(std::max(value, 0.0)));
}

void ColumnProfile::list_value(std::string_view text) {
  if (const auto found = values.find(text); found != values.end()) {
    ++found->second;
  } else if (values.size() < kValuesListed) {
    values.emplace(text, 1);
  } else {
    has_all_values = false;
  }
}

void ColumnProfile::note_other_text(std::string_view text) {
  if (const auto found = other_texts.find(text); found != other_texts.end())
    ++found->second;
  else if (other_texts.size() < kOtherTextsListed)
    other_texts.emplace(text, 1);
  if (!is_out_of_range(text)) return;
  if (out_of_range++ == 0) range_example = text;
}

void ColumnProfile::note_order(int64_t value) {
  ascends = ascends && (!has_previous_ || value == previous_ + 1);
  previous_ = value;
  has_previous_ = true;
}

}  // namespace emblem
