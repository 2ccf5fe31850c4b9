#include "init/column_profile.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/math/hash.h"
#include "core/text/text.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/number_form.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"
#include "init/lower_case.h"

namespace emblem {
namespace {

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

// False when it is none.
bool add_amount(std::string_view text, config::NumberFormat format, AmountProfile& amounts) {
  float value = 0;
  if (!parse_amount(text, format, value)) return false;
  ++amounts.count;
  amounts.numbers.add(value);
  return true;
}

bool add_date(std::string_view text, DateOrder order, DateProfile& dates) {
  const std::optional<DateTime> date = parse_date(text, order);
  if (date) dates.add(*date);
  return date.has_value();
}

// Whether a whole number may be a date: 20240501, or a time since 1970 from 1985 to 2050.
bool may_be_date(int64_t value) {
  if (value >= 1900'01'01 && value <= 2100'12'31)
    return value % 100 >= 1 && value % 100 <= 31 && value / 100 % 100 >= 1 &&
           value / 100 % 100 <= 12;
  const double seconds = value < 100'000'000'000           ? 1.0
                         : value < 100'000'000'000'000     ? 1e3
                         : value < 100'000'000'000'000'000 ? 1e6
                                                           : 1e9;
  const double since_1970 = static_cast<double>(value) / seconds;
  return since_1970 > 4.7e8 && since_1970 < 2.5e9;
}

void add_to_list(std::string_view text, ListProfile& list) {
  if (text.find(list.separator) != std::string_view::npos) ++list.fields;
  int64_t length = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(list.separator), text.size());
    if (end > 0) {
      ++length;
      list.distinct.add(hash_string(text.substr(0, end)));
      list.words.add(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  list.values += length;
  list.longest = std::max(list.longest, length);
}

}  // namespace

void NumberSample::add(double value) {
  constexpr size_t kMost = 20000;
  if (seen_++ % stride_ != 0) return;
  values_.push_back(value);
  if (values_.size() < kMost) return;
  for (size_t i = 0; i < kMost / 2; ++i) values_[i] = values_[2 * i];
  values_.resize(kMost / 2);
  stride_ *= 2;
}

void NumberSample::add(const NumberSample& other) {
  for (const double value : other.values_) add(value);
}

void WordCounts::add(std::string_view text) {
  if (const auto found = counts_.find(text); found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < kMost) {
    counts_.emplace(text, 1);
  } else {
    is_complete_ = false;
  }
}

std::vector<std::string> WordCounts::by_frequency() const {
  std::vector<std::pair<std::string, int64_t>> words(counts_.begin(), counts_.end());
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  for (auto& [text, count] : words) texts.push_back(std::move(text));
  return texts;
}

void DateProfile::add(const DateTime& date) {
  const auto day = static_cast<double>(date.days);
  first = count == 0 ? day : std::min(first, day);
  last = count == 0 ? day : std::max(last, day);
  ++count;
  days.add(static_cast<double>(date_number(date, config::DAYS)));
  distinct_days.add(hash_of_integer(date.days));
  hours.insert(static_cast<int>(date.seconds) / 3600);
}

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
      "?",       "-",     "--",    ".",        "*",          "na",
      "n/a",     "n.a.",  "#n/a",  "<na>",     "nil",        "null",
      "none",    "nan",   "-nan",  "\\n",      "missing",    "unknown",
      "inf",     "+inf",  "-inf",  "infinity", "-infinity",  "#value!",
      "#div/0!", "#num!", "#ref!", "nat",      "0000-00-00", "0000-00-00 00:00:00"};
  if (text.size() > 19) return false;
  const std::string lower = lower_case(text);
  return std::find(std::begin(kTexts), std::end(kTexts), lower) != std::end(kTexts);
}

void ColumnProfile::add_text(std::string_view field) {
  ++rows;
  if (field.empty()) {
    ++missing;
    return;
  }
  const std::string_view text = without_spaces(field);
  words.add(field);
  list_value(text);
  float number = 0;
  const bool is_number = parse_float(text, number);
  if (text.empty() || (is_number && is_missing_number(number)) || is_absent_text(text)) {
    ++absent[std::string(text)];
    return;
  }
  distinct.add(hash_string(text));
  padded += text.size() != field.size();
  int64_t integer = 0;
  if (is_number) {
    double exact = number;
    if (!parse_double(text, exact) || !std::isfinite(exact)) exact = number;
    add_to_numbers(exact);
    const bool whole = parse_integer(text, integer);
    integers += whole;
    const bool has_point = text.find('.') != std::string_view::npos;
    with_point += has_point;
    decimal_integers += whole && has_point;
    if (whole && may_be_date(integer)) date_numbers.add(date_of_number(integer));
    wide_integers += !whole && std::all_of(text.begin(), text.end(), is_digit);
    leading_zeros += whole && has_leading_zero(text);
    if (whole) note_order(integer);
    return;
  }
  const bool is_date = add_date(text, DateOrder::kMonthFirst, month_first) |
                       add_date(text, DateOrder::kDayFirst, day_first);
  const bool is_amount = add_amount(text, config::COMMA_GROUPS, comma_groups) |
                         add_amount(text, config::POINT_GROUPS, point_groups);
  if (!is_date && !is_amount) note_other_text(text);
  for (ListProfile& list : lists) add_to_list(text, list);
}

void ColumnProfile::add_number(double value) {
  if (is_missing_number(value)) return add_missing();
  ++rows;
  add_to_numbers(value);
  distinct.add(hash_of_integer(static_cast<int64_t>(std::bit_cast<uint64_t>(value))));
}

void ColumnProfile::add_key(int64_t key) {
  if (is_missing_number(key)) return add_missing();
  ++rows;
  ++integers;
  add_to_numbers(static_cast<double>(key));
  note_order(key);
  // As the text of a column of single values, which it is compared with.
  distinct.add(is_list ? hash_string(std::to_string(key)) : hash_of_integer(key));
}

void ColumnProfile::add_missing() {
  ++rows;
  ++missing;
}

void ColumnProfile::add_list_text(std::string_view text) {
  ++rows;
  distinct.add(hash_string(text));
  words.add(text);
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

int64_t ColumnProfile::others() const {
  int64_t count = 0;
  for (const auto& [text, times] : other_texts) count += times;
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
  numbers_sample.add(value);
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
