#include "init/column_kind.h"

#include <algorithm>
#include <cctype>

#include "core/text/text.h"
#include "init/lower_case.h"

namespace emblem {
namespace {

// Whether `name` ends in `word` as a word of its own: "user_id", "userId", "zip code".
bool ends_in_word(const std::string& name, std::string_view word) {
  const std::string lower = lower_case(name);
  if (lower == word) return true;
  if (!lower.ends_with(word)) return false;
  const char before = lower[lower.size() - word.size() - 1];
  const char first = name[name.size() - word.size()];
  return before == '_' || before == '-' || before == ' ' || before == '.' ||
         std::isupper(static_cast<unsigned char>(first)) != 0;
}

// Numbers under such a name have no order.
bool is_named_as_id(const std::string& name) {
  for (const std::string_view word : {"id", "uuid", "guid", "zip", "zipcode", "code"})
    if (ends_in_word(name, word)) return true;
  return lower_case(name) == "index";
}

bool is_named_as_time(std::string name) {
  for (const std::string_view unit : {"ms", "us", "ns", "millis", "micros", "nanos", "s", "sec"})
    if (name.size() > unit.size() + 1 && ends_in_word(name, unit)) {
      name = name.substr(0, name.size() - unit.size());
      if (std::isalnum(static_cast<unsigned char>(name.back())) == 0) name.pop_back();
      break;
    }
  for (const std::string_view word : {"time", "timestamp", "date", "datetime", "ts", "at", "when",
                                      "day", "epoch", "created", "updated"})
    if (ends_in_word(name, word)) return true;
  return lower_case(name).ends_with("timestamp");
}

// Whether one word stands among many different values: "#NV", "never".
bool has_one_other_word(const ColumnProfile& column) {
  if (column.other_texts.size() != 1 || column.distinct_count() <= 20) return false;
  const std::string& word = column.other_texts.begin()->first;
  return std::none_of(word.begin(), word.end(), is_digit);
}

// All values but a few mistakes, which are listed, or but one word.
bool are_nearly_all(int64_t count, const ColumnProfile& column) {
  const bool are_most = count * 100 >= column.present() * 99 ||
                        (count * 2 >= column.present() && has_one_other_word(column));
  return column.present() > 0 && are_most && count + column.others() >= column.present() &&
         column.other_texts.size() < kOtherTextsListed;
}

}  // namespace

bool is_all_numbers(const ColumnProfile& column) {
  return column.present() > 0 && column.numbers >= column.present();
}

bool is_numeric(const ColumnProfile& column) { return are_nearly_all(column.numbers, column); }

bool has_large_numbers(const ColumnProfile& column) {
  return column.out_of_range > 0 && column.numbers + column.out_of_range >= column.present();
}

bool is_integer(const ColumnProfile& column) {
  return is_numeric(column) && column.integers == column.numbers;
}

bool has_no_order(const ColumnProfile& column) {
  return is_named_as_id(column.name) || column.leading_zeros > 0;
}

bool has_one_row_each(const ColumnProfile& column) {
  return column.present() >= 50 &&
         static_cast<double>(column.distinct_count()) > 0.9 * static_cast<double>(column.present());
}

bool has_wide_integers(const ColumnProfile& column) {
  return column.wide_integers > 0 && is_numeric(column) &&
         column.integers + column.wide_integers == column.numbers;
}

// Times in ms, us and ns are that large, too.
bool holds_large_keys(const ColumnProfile& column) {
  return is_integer(column) && column.max > 0x1p31 && !(column.min > 1e12 && column.max < 3e18);
}

std::optional<config::NumberFormat> amount_format_of(const ColumnProfile& column) {
  if (column.is_list || is_numeric(column)) return {};
  // "3,456" may be both; groups of three digits are rare by chance.
  if (column.comma_groups.count > 0 &&
      are_nearly_all(column.numbers + column.comma_groups.count, column))
    return config::COMMA_GROUPS;
  if (column.point_groups.count > 0 &&
      are_nearly_all(column.numbers - column.with_point + column.point_groups.count, column))
    return config::POINT_GROUPS;
  return {};
}

const DateProfile* dates_of(const ColumnProfile& column) {
  if (column.is_list || column.present() == 0) return nullptr;
  if (are_nearly_all(column.dates(), column))
    return has_day_first(column) ? &column.day_first : &column.month_first;
  if (!is_integer(column) || column.date_numbers.count < column.present()) return nullptr;
  // 20240501 is a date by its digits; seconds since 1970 need a name.
  const bool is_written_date = column.min >= 1900'01'01 && column.max <= 2100'12'31;
  return is_written_date || is_named_as_time(column.name) ? &column.date_numbers : nullptr;
}

bool has_day_first(const ColumnProfile& column) {
  return column.day_first.count > column.month_first.count;
}

const ListProfile* list_of(const ColumnProfile& column) {
  if (amount_format_of(column) || column.present() == 0) return nullptr;
  const auto fields = static_cast<double>(column.present());
  const auto whole = static_cast<double>(column.distinct_count());
  for (const ListProfile& list : column.lists) {
    // Spaces and commas are common within single values, so that these have to show more.
    const bool is_strong = list.separator == '|' || list.separator == ';';
    const auto parts = static_cast<double>(list.distinct.estimate());
    if (static_cast<double>(list.fields) < (is_strong ? 0.1 : 0.3) * fields) continue;
    if (parts < whole * (is_strong ? 1.0 : 0.5) && (is_strong || whole > 20)) return &list;
  }
  return nullptr;
}

std::string shape_of(const ColumnProfile& column) {
  if (!column.unusable.empty()) return column.is_list ? "list" : "binary";
  if (column.present() == 0) return "empty";
  if (column.is_list) return column.is_vector() ? "vector" : "list";
  if (!column.is_text_file) return column.integers > 0 ? "key" : "number";
  if (dates_of(column) != nullptr) return "date";
  if (is_integer(column) || has_wide_integers(column)) return "integer";
  if (is_numeric(column)) return "number";
  if (amount_format_of(column)) return "amount";
  return list_of(column) != nullptr ? "list" : "text";
}

}  // namespace emblem
