#include "data/format/text/spelling.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "core/text/text.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"
#include "data/format/text/time_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Style = Spelling::Style;

struct Pair {
  const char* yes;
  const char* no;
};

constexpr std::array<Pair, 11> kPairs{{{"True", "False"},
                                       {"true", "false"},
                                       {"TRUE", "FALSE"},
                                       {"t", "f"},
                                       {"T", "F"},
                                       {"yes", "no"},
                                       {"Yes", "No"},
                                       {"YES", "NO"},
                                       {"y", "n"},
                                       {"Y", "N"},
                                       {"on", "off"}}};

int pair_of(std::string_view text) {
  for (size_t i = 0; i < kPairs.size(); ++i)
    if (text == kPairs[i].yes || text == kPairs[i].no) return static_cast<int>(i);
  return -1;
}

// The digits at the front; how many.
size_t count_digits(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

// An example for 12:30 on 2026-11-16, and half a second more where a fraction has no zeros at
// its end.
std::string example_of(const TimeFormat& format) {
  const bool is_trimmed = format.digits == TimeFormat::kTrimmed;
  constexpr int64_t kHalfPastTwelve = int64_t{45000} * 1000000000;
  Moment moment{format.has_date ? 20773 : 0, format.has_clock ? kHalfPastTwelve : 0};
  if (is_trimmed) moment.nanoseconds += 500000000;
  std::string text;
  write_moment(moment, format, text);
  return text;
}

std::string plain_text(std::string_view number) {
  if (is_integer_literal(number)) return std::string(number);
  double value = 0;
  std::string text;
  if (parse_double(number, value)) write_number(value, text);
  return text;
}

// Whether a number with an exponent is none that writers write: they give one to numbers with one
// digit before the point, and without a point to large and small ones alone. 1E1 and 10E0 are
// codes, which would be one number.
bool is_code(std::string_view number) {
  if (number.find_first_of("eE") == number.npos) return false;
  if (number.starts_with('-')) number.remove_prefix(1);
  double value = 0;
  if (!parse_double(number, value) || !std::isfinite(value)) return true;
  if (value == 0) return number[0] != '0';
  return number[1] != '.' && (is_digit(number[1]) || (value < 1e5 && value >= 1e-3));
}

}  // namespace

bool is_integer_literal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && count_digits(text) == text.size() && (text.size() == 1 || text[0] != '0');
}

bool is_number_literal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t whole = count_digits(text);
  if (whole == 0 || (whole > 1 && text[0] == '0')) return false;
  text.remove_prefix(whole);
  if (text.starts_with('.')) {
    const size_t fraction = count_digits(text.substr(1));
    if (fraction == 0) return false;
    text.remove_prefix(1 + fraction);
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    const size_t exponent = count_digits(text);
    if (exponent == 0) return false;
    text.remove_prefix(exponent);
  }
  return text.empty();
}

int truth_of(std::string_view text) {
  for (size_t i = 0; i < 3; ++i) {
    if (text == kPairs[i].yes) return 1;
    if (text == kPairs[i].no) return 0;
  }
  return -1;
}

std::string name_of(const Spelling& spelling) {
  switch (spelling.style) {
    case Style::kUnknown:
      return "";
    case Style::kPlain:
      return "9";
    case Style::kPoint:
      return "9.0";
    case Style::kFixed:
      return "9." + std::string(static_cast<size_t>(spelling.digits), '0');
    case Style::kBools:
      return spelling.yes;
    case Style::kTimes:
      return example_of(spelling.format);
    case Style::kWords:
      return "text";
    case Style::kMixed:
      break;
  }
  return "mixed";
}

Spelling spelling_named(const std::string& name) {
  Spelling spelling;
  for (const Style style :
       {Style::kUnknown, Style::kPlain, Style::kPoint, Style::kWords, Style::kMixed}) {
    spelling.style = style;
    if (name_of(spelling) == name) return spelling;
  }
  if (name.starts_with("9.") && name.find_first_not_of('0', 2) == name.npos)
    return {.style = Style::kFixed, .digits = static_cast<int>(name.size()) - 2};
  for (const Pair& pair : kPairs)
    if (name == pair.yes) return {.style = Style::kBools, .yes = pair.yes, .no = pair.no};
  Moment moment;
  spelling.style = Style::kTimes;
  if (parse_moment(name, moment, spelling.format)) {
    if (name.find(".5") != name.npos) spelling.format.digits = TimeFormat::kTrimmed;
    if (name_of(spelling) == name) return spelling;
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("data_config.column_types: spelling \"", name,
                  "\" is not known to this version of Emblem; expected 9, 9.0, True, text, mixed "
                  "or the like"));
}

void SpellingSample::add(std::string_view text) {
  if (text.empty()) return;
  if (is_number_literal(text) && !is_code(text)) return add_number(text);
  const int pair = pair_of(text);
  double number = 0;
  Moment moment;
  TimeFormat format;
  if (pair >= 0) {
    add_bool(pair);
  } else if (parse_moment(text, moment, format)) {
    add_time(format, text);
  } else if (!is_number_literal(text) && is_digit(text.back()) && parse_double(text, number)) {
    odd_ = true;
  } else {
    ++words_;
  }
}

void SpellingSample::add_number(std::string_view text) {
  ++numbers_;
  const std::string plain = plain_text(text);
  plain_ = plain_ && text == plain;
  point_ = point_ && text == (is_integer_literal(plain) ? plain + ".0" : plain);
  const size_t point = text.find('.');
  const int digits = point == text.npos || text.find_first_of("eE") != text.npos
                         ? 0
                         : static_cast<int>(text.size() - point - 1);
  if (digits_ < 0) digits_ = digits;
  fixed_ = fixed_ && digits > 0 && digits == digits_;
}

void SpellingSample::add_time(const TimeFormat& format, std::string_view text) {
  TimeFormat alike = format;
  if (times_++ == 0) format_ = format;
  fixed_fraction_ = fixed_fraction_ && format.digits == format_.digits;
  const bool has_zeros = format.digits > 0 && text[text.size() - format.zone.size() - 1] == '0';
  trimmed_fraction_ = trimmed_fraction_ && !has_zeros;
  alike.digits = format_.digits;
  const bool is_utc = alike.zone.find_first_of("123456789") == alike.zone.npos;
  one_format_ = one_format_ && is_utc && alike == format_;
}

void SpellingSample::add_bool(int pair) {
  ++bools_;
  pair_ = pair_ == -1 || pair_ == pair ? pair : -2;
}

Spelling SpellingSample::spelling() const {
  const int64_t others = bools_ + times_ + words_;
  if (numbers_ + others == 0 && !odd_) return {};
  if (odd_ || (numbers_ > 0 && bools_ > 0)) return {.style = Style::kMixed};
  if (numbers_ > 0) {
    if (point_) return {.style = Style::kPoint};  // both are true for fractions alone
    if (plain_) return {.style = Style::kPlain};
    if (fixed_) return {.style = Style::kFixed, .digits = digits_};
    return {.style = Style::kMixed};
  }
  if (bools_ == others && pair_ >= 0) {
    const Pair& pair = kPairs[static_cast<size_t>(pair_)];
    return {.style = Style::kBools, .yes = pair.yes, .no = pair.no};
  }
  if (times_ < others || !one_format_ || (!fixed_fraction_ && !trimmed_fraction_))
    return {.style = Style::kWords};
  Spelling spelling{.style = Style::kTimes, .format = format_};
  if (!fixed_fraction_) spelling.format.digits = TimeFormat::kTrimmed;
  return spelling;
}

void FloatTexts::add(std::string_view text) {
  if (text.empty()) return;
  if (is_number_literal(text)) {
    if (is_code(text))
      ++others_;
    else if (text.find_first_of("eE") != text.npos || text == "-0" || text == "-0.0")
      ++varying_;
    else if (text.find('.') != text.npos)
      ++fractions_;
    return;
  }
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool is_special = text == "nan" || text == "NaN" || text == "inf";
  ++(is_special ? specials_ : others_);
}

}  // namespace emblem
