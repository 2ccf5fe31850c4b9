// data/format/text/text_scan.h - numbers in text, written for short fields: no allocation, no
// locale.
//
// The scan_* functions work on lines that end in '\n' and are followed by readable bytes; the
// parse_* functions on a field whose end is known.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace emblem {

inline constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

// Whether the text begins with `c`, which is then removed.
inline bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

namespace detail {
// The value of a hexadecimal digit; 255 for other characters.
inline constexpr std::array<uint8_t, 256> kHexDigit = [] {
  std::array<uint8_t, 256> table{};
  table.fill(255);
  for (int i = 0; i < 10; ++i) table['0' + i] = static_cast<uint8_t>(i);
  for (int i = 0; i < 6; ++i) {
    table['a' + i] = static_cast<uint8_t>(10 + i);
    table['A' + i] = static_cast<uint8_t>(10 + i);
  }
  return table;
}();
}  // namespace detail

// Reads a whole number of at most 9 digits, or nothing (NaN), and returns where it ends; null when
// the text is anything else. The caller checks what follows.
inline const char* scan_small_integer(const char* at, float& value) {
  const bool negative = *at == '-';
  const char* first = at + negative;
  uint32_t digit = static_cast<uint8_t>(*first) - uint32_t{'0'};
  if (digit > 9) {
    value = kMissing;
    return negative ? nullptr : at;
  }
  uint32_t number = digit;
  const char* end = first + 1;
  while ((digit = static_cast<uint8_t>(*end) - uint32_t{'0'}) <= 9) {
    number = number * 10 + digit;
    ++end;
  }
  if (end - first > 9) return nullptr;
  const float magnitude = static_cast<float>(number);
  value = negative ? -magnitude : magnitude;
  return end;
}

// Reads exactly 8 hexadecimal digits; false when there is another character among them.
inline bool scan_hex8(const char* at, uint32_t& value) {
  // Eight characters at a time in one word: letters have bit 6 set and count 9 more than their low
  // four bits.
  uint64_t word;
  __builtin_memcpy(&word, at, 8);
  constexpr uint64_t kOnes = 0x0101010101010101ull;
  const uint64_t letters = (word >> 6) & kOnes;
  const uint64_t low = word & (kOnes * 0x0f);
  // A digit is 0x30 + 0..9; a letter is 0x40 or 0x60 + 1..6. 15 - 9 = 6 and 15 - 6 = 9: adding
  // these carries into bit 4 for what is too large; a letter 0 is caught by subtracting.
  const uint64_t too_large = (low + kOnes * 6 + letters * 3) & (kOnes * 0x10);
  const uint64_t zero_letter = ~((low | (kOnes * 0x10)) - letters) & (kOnes * 0x10);
  const uint64_t high = word & (kOnes * 0xf0);
  const uint64_t digit_high = kOnes * 0x30;
  const uint64_t expected = digit_high + letters * 0x10;              // 0x30 or 0x40
  const uint64_t wrong_high = (high ^ expected) & ~(letters * 0x20);  // letters may be 0x40 or 0x60
  if ((too_large | zero_letter | wrong_high) != 0) return false;
  uint64_t nibbles = __builtin_bswap64(low + letters * 9);  // the first character is the highest
  nibbles = (nibbles | (nibbles >> 4)) & 0x00ff00ff00ff00ffull;
  nibbles = (nibbles | (nibbles >> 8)) & 0x0000ffff0000ffffull;
  value = static_cast<uint32_t>(nibbles | (nibbles >> 16));
  return true;
}

inline std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Whether a decimal number that no float or double has is too large for it, not too small: where
// its first digit that counts stands.
inline bool is_too_large(std::string_view number) {
  if (number.starts_with('-')) number.remove_prefix(1);
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = digits.find_first_of("123456789");
  const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first);  // 1 and less: .x
  std::string_view exponent = number.substr(std::min(e + 1, number.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int64_t power = 0;
  const auto read = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  if (read.ec == std::errc::result_out_of_range) return !exponent.starts_with('-');
  return power > -place;
}

// A finite decimal number; empty text and "nan" are NaN. False when the text is anything else.
inline bool parse_float(std::string_view text, float& value) {
  text = without_spaces(text);
  if (text.empty()) {
    value = kMissing;
    return true;
  }
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // Too small for a float is as good as zero; too large cannot be trained on.
    value = 0;
    return !is_too_large(text);
  }
  return error == std::errc() && !std::isinf(value);
}

// The same, and infinite numbers: "inf", "-Infinity", and what is too large for a float.
inline bool parse_any_float(std::string_view text, float& value) {
  if (parse_float(text, value)) return true;
  text = without_spaces(text);
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  value = text.front() == '-' ? -kInfinity : kInfinity;
  return true;
}

// A number with the digits of a double; what is too large for one is infinite, what is too small
// is zero. Empty text and "nan" are NaN.
inline bool parse_double(std::string_view text, double& value) {
  text = without_spaces(text);
  if (text.empty()) {
    value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    value = is_too_large(text) ? std::numeric_limits<double>::infinity() : 0.0;
    if (text.starts_with('-')) value = -value;
  }
  return end == text.data() + text.size() && error != std::errc::invalid_argument;
}

// A whole number of 64 bits, signed or unsigned (unsigned ones wrap); "3.0" is whole too.
inline bool parse_integer(std::string_view text, int64_t& value) {
  text = without_spaces(text);
  if (const size_t point = text.find('.'); point != std::string_view::npos && point != 0) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) return false;
    text = text.substr(0, point);
  }
  const char* end = text.data() + text.size();
  auto result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc::result_out_of_range && text.front() != '-') {
    uint64_t wide = 0;
    result = std::from_chars(text.data(), end, wide);
    value = static_cast<int64_t>(wide);
  }
  return result.ec == std::errc() && result.ptr == end;
}

// 1 to 16 hexadecimal digits.
inline bool parse_hexadecimal(std::string_view text, int64_t& value) {
  if (text.empty() || text.size() > 16) return false;
  uint64_t number = 0;
  for (const char c : text) {
    const uint8_t digit = detail::kHexDigit[static_cast<uint8_t>(c)];
    if (digit > 15) return false;
    number = number << 4 | digit;
  }
  value = static_cast<int64_t>(number);
  return true;
}

}  // namespace emblem
