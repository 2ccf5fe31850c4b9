#include "data/format/rows/trained_values.h"

#include <cmath>

#include "data/format/decoder.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"
#include "data/format/text/time_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Style = Spelling::Style;

constexpr std::string_view kMissingText = "-9223372036854775808";

Respelled refuse(std::string_view text, const char* expected, std::string& out) {
  out = cat(in_quotes(text), " is not ", expected, ", as the column's values were in training");
  return Respelled::kRefused;
}

// "9" for "9.0" and "9.00"; "" for all else.
std::string_view whole_part(std::string_view text) {
  if (text.empty() || text.back() != '0') return {};
  const size_t point = text.find('.');
  if (point == text.npos || text.find_first_not_of('0', point + 1) != text.npos) return {};
  const std::string_view whole = text.substr(0, point);
  return is_integer_literal(whole) ? whole : std::string_view();
}

Respelled changed(std::string_view text, std::string& out) {
  if (text == kMissingText) return Respelled::kMissing;
  out = text;
  return Respelled::kChanged;
}

Respelled as_point(std::string_view text, std::string& out) {
  if (text == "nan" || text == "NaN") return Respelled::kMissing;
  const std::string_view whole = is_integer_literal(text) ? text : whole_part(text);
  if (whole.empty() || text.size() == whole.size() + 2) return Respelled::kSame;
  if (whole == kMissingText) return Respelled::kMissing;
  out = cat(whole, ".0");
  return Respelled::kChanged;
}

// As many zeros as needed; numbers with more digits stay as they are.
Respelled as_fixed(std::string_view text, int digits, std::string& out) {
  if (!is_number_literal(text) || text.find_first_of("eE") != text.npos) return Respelled::kSame;
  if (text == kMissingText) return Respelled::kMissing;
  const size_t point = std::min(text.find('.'), text.size());
  std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  if (fraction.size() == static_cast<size_t>(digits)) return Respelled::kSame;
  while (fraction.size() > static_cast<size_t>(digits) && fraction.back() == '0')
    fraction.remove_suffix(1);
  if (fraction.size() > static_cast<size_t>(digits)) return Respelled::kSame;
  const std::string zeros(static_cast<size_t>(digits) - fraction.size(), '0');
  out = cat(text.substr(0, point), ".", fraction, zeros);
  return Respelled::kChanged;
}

// 1, 0, or -1 for what is not a bool.
int bool_of(std::string_view text) {
  text = without_spaces(text);
  if (text == "1" || text == "1.0") return 1;
  if (text == "0" || text == "0.0") return 0;
  return truth_of(text);
}

Respelled as_text(const Spelling& spelling, std::string_view text, std::string& out) {
  switch (spelling.style) {
    case Style::kPlain: {
      if (text == kMissingText) return Respelled::kMissing;
      const std::string_view whole = whole_part(text);
      return whole.empty() ? Respelled::kSame : changed(whole, out);
    }
    case Style::kPoint:
      return as_point(text, out);
    case Style::kFixed:
      return as_fixed(text, spelling.digits, out);
    case Style::kBools: {
      if (text == spelling.yes || text == spelling.no) return Respelled::kSame;
      const int truth = bool_of(text);
      return truth < 0 ? Respelled::kSame : changed(truth == 1 ? spelling.yes : spelling.no, out);
    }
    case Style::kTimes: {
      Moment moment;
      TimeFormat format;
      if (!parse_moment(text, moment, format) || format.has_date != spelling.format.has_date)
        return Respelled::kSame;
      out.clear();
      const bool fits = format != spelling.format && write_moment(moment, spelling.format, out);
      return fits && out != text ? Respelled::kChanged : Respelled::kSame;
    }
    case Style::kUnknown:
    case Style::kWords:
    case Style::kMixed:
      break;
  }
  return Respelled::kSame;
}

Respelled as_integer(std::string_view text, std::string& out) {
  if (is_integer_literal(text)) {
    if (text == kMissingText) return Respelled::kMissing;
    if (text.size() < 19 && text != "-0") return Respelled::kSame;
  }
  int64_t integer = 0;
  double number = 0;
  if (parse_integer(text, integer)) {
    const bool is_unsigned = integer < 0 && !without_spaces(text).starts_with('-');
    out.clear();
    is_unsigned ? write_integer(static_cast<uint64_t>(integer), out) : write_integer(integer, out);
  } else if (parse_double(text, number) && to_integer(number, integer)) {
    out.clear();
    write_integer(integer, out);
  } else {
    return refuse(text, "an integer", out);
  }
  if (out == kMissingText) return Respelled::kMissing;
  return out == text ? Respelled::kSame : Respelled::kChanged;
}

// Number: the precision of training.
template <class Number>
Respelled as_number(std::string_view text, std::string& out) {
  double number = 0;
  if (!parse_double(text, number)) return refuse(text, "a number", out);
  if (std::isnan(number)) return Respelled::kMissing;
  const bool has_digits = text.find_first_of("123456789") != text.npos;
  if (std::isinf(number) && has_digits) return refuse(text, "a number that a double can be", out);
  out.clear();
  write_number(static_cast<Number>(number), out);
  if (out == kMissingText) return Respelled::kMissing;
  return out == text ? Respelled::kSame : Respelled::kChanged;
}

Respelled as_bool(std::string_view text, std::string& out) {
  if (text == "1" || text == "0") return Respelled::kSame;
  const int truth = bool_of(text);
  if (truth < 0) return refuse(text, "true or false", out);
  return changed(truth == 1 ? "1" : "0", out);
}

Respelled as_ticks(const ValueType& type, std::string_view text, std::string& out) {
  if (is_integer_literal(text)) return Respelled::kSame;
  int64_t ticks = 0;
  if (!parse_time(without_spaces(text), type, ticks))
    return refuse(text,
                  cat("a ", name_of(type),
                      " (in a form like 2026-11-16 or 2026-11-16 "
                      "12:30:00, or an integer of this unit)")
                      .c_str(),
                  out);
  out.clear();
  write_integer(ticks, out);
  return Respelled::kChanged;
}

// What a column of numbers and bools cannot be for text that was spelled so.
bool may_be_number(const Spelling& spelling) {
  return spelling.has_numbers() || spelling.style == Style::kBools ||
         spelling.style == Style::kUnknown;
}

bool is_convertible(const TrainedValues& trained, const ValueType& found) {
  const ValueType& type = trained.type;
  if (found.is_temporal()) {
    if (type.kind == ValueKind::kText)
      return trained.spelling.style == Style::kUnknown ||
             (trained.spelling.style == Style::kTimes && found.kind != ValueKind::kDuration &&
              trained.spelling.format.has_date == found.is_point_in_time());
    return type.kind == found.kind || (type.is_point_in_time() && found.is_point_in_time());
  }
  if (type.is_temporal()) return found.kind == ValueKind::kInteger;
  return type.kind != ValueKind::kText || may_be_number(trained.spelling);
}

std::string training_text(const TrainedValues& trained) {
  if (trained.type.kind != ValueKind::kText) return name_of(trained.type);
  switch (trained.spelling.style) {
    case Style::kMixed:
      return "text with numbers in several spellings (such as 7 and 7.0, or 007)";
    case Style::kWords:
      return "text without numbers";
    default:
      return cat("text like ", in_quotes(name_of(trained.spelling)));
  }
}

}  // namespace

Respelled respell(const TrainedValues& trained, std::string_view text, std::string& out) {
  if (text.empty()) return Respelled::kSame;
  switch (trained.type.kind) {
    case ValueKind::kUnknown:
      return Respelled::kSame;
    case ValueKind::kText:
      return as_text(trained.spelling, text, out);
    case ValueKind::kInteger:
      return as_integer(text, out);
    case ValueKind::kFloat:
      return as_number<float>(text, out);
    case ValueKind::kDouble: {
      const Respelled made = as_number<double>(text, out);
      const bool was_text = trained.spelling.style == Style::kWords;
      return made == Respelled::kRefused && was_text ? Respelled::kSame : made;
    }
    case ValueKind::kBool:
      return as_bool(text, out);
    case ValueKind::kDate:
    case ValueKind::kTime:
    case ValueKind::kTimestamp:
    case ValueKind::kDuration:
      break;
  }
  return as_ticks(trained.type, text, out);
}

std::string kind_problem(const TrainedValues& trained, const ValueType& found,
                         const std::string& found_name) {
  const bool is_checked =
      trained.is_known() && found.kind != ValueKind::kUnknown && found.kind != ValueKind::kText;
  if (!is_checked || is_convertible(trained, found)) return "";
  const bool was_text = trained.type.kind == ValueKind::kText;
  return cat(
      "is ", found_name, ", but was ", training_text(trained),
      " in training, and which value is which is not certain; give it as ",
      was_text ? "text, spelled as in training" : "the type that it had in training, or as text");
}

}  // namespace emblem
