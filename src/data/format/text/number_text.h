// data/format/text/number_text.h - the text of numbers, by which they are hashed, looked up in
// vocabularies and written to text files (docs/formats.md, "The text of a value").
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace emblem {

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

}  // namespace emblem
