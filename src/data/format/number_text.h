// data/format/number_text.h - numbers as text.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace emblem {

// Appends the shortest text that is read as the same number, as a float where it is one; whole
// numbers have no point.
inline void write_number(double value, std::string& text) {
  char digits[32];
  const bool is_whole = std::fabs(value) < 1e15 && value == std::floor(value);
  const bool is_float = static_cast<double>(static_cast<float>(value)) == value;
  char* const end = digits + sizeof digits;
  const auto written = is_whole   ? std::to_chars(digits, end, static_cast<int64_t>(value))
                       : is_float ? std::to_chars(digits, end, static_cast<float>(value))
                                  : std::to_chars(digits, end, value);
  text.append(digits, written.ptr);
}

// Appends the shortest text that is read as the same double; whole numbers have no point.
inline void write_digits(double value, std::string& text) {
  char digits[32];
  const bool is_whole = std::fabs(value) < 1e15 && value == std::floor(value);
  char* const end = digits + sizeof digits;
  const auto written = is_whole ? std::to_chars(digits, end, static_cast<int64_t>(value))
                                : std::to_chars(digits, end, value);
  text.append(digits, written.ptr);
}

template <class Integer>
void write_integer(Integer value, std::string& text) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace emblem
