#include "data/format/text/number_form.h"

#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "data/batch.h"
#include "data/format/text/date_text.h"
#include "data/format/text/text_scan.h"

namespace emblem {
namespace {

// Signs of currencies before or after a number.
constexpr std::string_view kCurrencies[] = {"US$", "R$", "C$",  "A$", "$",  "€",   "£",
                                            "¥",   "₹",  "₽", "₺",  "₩",  "₪",   "₫",
                                            "฿",   "kr", "zł",  "Kč", "Ft", "Rs.", "Rs"};
constexpr std::string_view kMinus = "\u2212";
constexpr std::string_view kWideSpaces[] = {"\u00a0", "\u202f", "\u2009"};
constexpr std::string_view kApostrophes[] = {"'", "\u2019"};

// Spaces that do not break and narrow ones count.
std::string_view without_wide_spaces(std::string_view text) {
  for (size_t before = text.size() + 1; before != text.size();) {
    before = text.size();
    text = without_spaces(text);
    for (const std::string_view space : kWideSpaces) {
      if (text.starts_with(space)) text.remove_prefix(space.size());
      if (text.ends_with(space)) text.remove_suffix(space.size());
    }
  }
  return text;
}

// Takes "EUR" or a sign off one end.
bool take_currency(std::string_view& text) {
  const auto is_code = [](std::string_view part) {
    return std::all_of(part.begin(), part.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  };
  for (const std::string_view sign : kCurrencies) {
    if (text.starts_with(sign)) {
      text.remove_prefix(sign.size());
      return true;
    }
    if (text.ends_with(sign)) {
      text.remove_suffix(sign.size());
      return true;
    }
  }
  if (text.size() <= 3) return false;
  if (is_code(text.substr(0, 3))) {
    text.remove_prefix(3);
    return true;
  }
  if (!is_code(text.substr(text.size() - 3))) return false;
  text.remove_suffix(3);
  return true;
}

bool take_sign(std::string_view& text, bool& is_negative) {
  if (text.starts_with(kMinus)) {
    is_negative = true;
    text.remove_prefix(kMinus.size());
    return true;
  }
  if (text.size() > 1 && text.back() == '-' && is_digit(text[text.size() - 2])) {  // SAP's "7.50-"
    is_negative = true;
    text.remove_suffix(1);
    return true;
  }
  if (text.empty() || (text.front() != '-' && text.front() != '+')) return false;
  is_negative = is_negative || text.front() == '-';
  text.remove_prefix(1);
  return true;
}

void replace_all(std::string& text, std::string_view from, char to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + 1))
    text.replace(at, from.size(), 1, to);
}

// "1'234.50" and "1 234,50" with `group` between groups. Numbers with plain spaces alone may be a
// list: `spaces_group` says that they are not.
std::string with_group(std::string_view text, char group, bool spaces_group) {
  std::string grouped(text);
  const bool is_grouped = text.find(group) != text.npos;
  if (is_grouped || text.find_first_of(" '\xc2\xe2") == text.npos) return grouped;
  for (const std::string_view space : kWideSpaces) replace_all(grouped, space, group);
  for (const std::string_view sign : kApostrophes) replace_all(grouped, sign, group);
  if (spaces_group) replace_all(grouped, " ", group);
  return grouped;
}

// Digits with `group` between groups of three, and a fraction after `point`.
bool read_digits(std::string_view text, char group, char point, std::string& plain) {
  const size_t end = std::min(text.find(point), text.size());
  const std::string_view whole = text.substr(0, end);
  const bool is_grouped = whole.find(group) != std::string_view::npos;
  size_t since_group = 0;
  bool is_first_group = true;
  for (const char c : whole) {
    if (c == group) {
      if (since_group == 0 || since_group > 3 || (!is_first_group && since_group != 3))
        return false;
      is_first_group = false;
      since_group = 0;
    } else if (is_digit(c)) {
      ++since_group;
      plain += c;
    } else {
      return false;
    }
  }
  // "0,123" is a fraction.
  if (is_grouped && (since_group != 3 || whole.front() == '0')) return false;
  if (end == text.size()) return !plain.empty();
  const std::string_view fraction = text.substr(end + 1);
  plain += '.';
  plain += fraction;
  return std::all_of(fraction.begin(), fraction.end(), is_digit) && plain.size() > 1;
}

}  // namespace

bool parse_amount(std::string_view text, config::NumberFormat format, float& value) {
  text = without_wide_spaces(text);
  bool is_negative = false;
  if (text.size() > 2 && text.front() == '(' && text.back() == ')') {
    is_negative = true;
    text = without_spaces(text.substr(1, text.size() - 2));
  }
  const bool has_sign = take_sign(text, is_negative);
  const bool has_currency = take_currency(text);
  if (has_currency) text = without_wide_spaces(text);
  if (!has_sign) take_sign(text, is_negative);
  if (text.ends_with('%')) text = without_wide_spaces(text.substr(0, text.size() - 1));
  const bool commas = format == config::COMMA_GROUPS;
  const char group = commas ? ',' : '.', point = commas ? '.' : ',';
  const bool is_one_number = has_currency || text.find(point) != text.npos;
  std::string plain = is_negative ? "-" : "";
  std::string digits;
  if (!read_digits(with_group(text, group, is_one_number), group, point, digits)) return false;
  return parse_float(plain + digits, value) && std::isfinite(value);
}

bool parse_number_form(std::string_view text, const NumberForm& form, float& value) {
  text = without_spaces(text);
  if (text.empty()) {
    value = kMissing;
    return true;
  }
  if (!form.is_date()) return parse_amount(text, form.format, value);
  int64_t number = 0;
  std::optional<DateTime> date;
  if (parse_integer(text, number))
    date = date_of_number(number);
  else
    date = parse_date(text, form.day_first ? DateOrder::kDayFirst : DateOrder::kMonthFirst);
  if (!date) return false;
  value = date_number(*date, form.part);
  return true;
}

std::string expected_of(const NumberForm& form) {
  if (form.is_date()) return "a date like 2024-05-01 10:00";
  return form.format == config::COMMA_GROUPS ? "a number like 1,234.50" : "a number like 1.234,50";
}

}  // namespace emblem
