// core/math/decimal_hash.h - fg_hash of integers as decimal text, without writing the text to
// memory.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>

#include "core/math/hash.h"

namespace emblem {
namespace detail {

inline constexpr auto kPowersOfTen = [] {
  std::array<uint64_t, 20> powers{1};
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = 10 * powers[i - 1];
  return powers;
}();

inline int count_digits(uint64_t value) {
  const int below = std::bit_width(value | 1) * 1233 >> 12;  // log10(2) = 1233 / 4096
  return below + (value >= kPowersOfTen[below] ? 1 : 0) + (value == 0 ? 1 : 0);
}

// The text of a number below 10^8 with leading zeros; the first character is the lowest byte.
inline uint64_t eight_digits(uint64_t value) {
  const uint64_t fours = value / 10'000 | value % 10'000 << 32;
  const uint64_t hundreds = fours * 10'486 >> 20 & 0x0000'007f'0000'007full;
  const uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
  const uint64_t tens = pairs * 103 >> 10 & 0x000f'000f'000f'000full;
  return (tens | (pairs - 10 * tens) << 8) | 0x3030'3030'3030'3030ull;
}

}  // namespace detail

inline uint64_t fg_hash_decimal(int64_t value) {
  constexpr int64_t kTwoWords = 1'000'000'000'000'000;  // 15 digits: one whole word and a rest
  if (value < 0 || value >= kTwoWords) {
    char digits[24];
    const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return fg_hash({digits, static_cast<size_t>(end - digits)});
  }
  auto left = static_cast<uint64_t>(value);
  int digits = detail::count_digits(left);
  FgHash hash(static_cast<size_t>(digits));
  if (digits >= 8) {
    digits -= 8;
    const uint64_t power = detail::kPowersOfTen[digits], first = left / power;
    hash.add_word(detail::eight_digits(first));
    left -= first * power;
  }
  if (digits > 0) hash.add_rest(detail::eight_digits(left) >> 8 * (8 - digits));
  return hash.result();
}

}  // namespace emblem
