// data/format/text/number_text.h - the text of numbers, by which they are hashed, looked up in
// vocabularies and written to text files (docs/formats.md, "The text of a value").
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace emblem {

// An integer that is missing, in files as in requests. As a float or double it is -2^63.
inline constexpr int64_t kMissingId = std::numeric_limits<int64_t>::min();

// Whether a number of a file or request stands for a missing value: NaN, or the smallest int64.
template <class Number>
bool is_missing_number(Number value) {
  if constexpr (std::is_floating_point_v<Number>)
    return std::isnan(value) || value == static_cast<Number>(kMissingId);
  return std::is_same_v<Number, int64_t> && value == static_cast<Number>(kMissingId);
}

template <class Integer>
void write_integer(Integer value, std::string& text) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// Whether a number is an integer of 64 bits; then `to` is that.
inline bool to_integer(double value, int64_t& to) {
  if (!(value >= -0x1p63 && value < 0x1p63) || value != std::floor(value)) return false;
  to = static_cast<int64_t>(value);
  return true;
}

// Appends the text of the integer where the number is one of 64 bits, else the shortest text that
// reads as the same float or double.
template <class Number>
void write_number(Number value, std::string& text) {
  static_assert(std::is_floating_point_v<Number>);
  int64_t integer = 0;
  if (to_integer(static_cast<double>(value), integer)) return write_integer(integer, text);
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// Appends the text of a number of a file or request, where bools are "1" and "0" and a missing
// number has none.
template <class Number>
void write_value(Number value, std::string& text) {
  if (is_missing_number(value)) return;
  if constexpr (std::is_floating_point_v<Number>) {
    write_number(value, text);
  } else if constexpr (std::is_same_v<Number, bool>) {
    text.push_back(value ? '1' : '0');
  } else {
    write_integer(value, text);
  }
}

}  // namespace emblem
