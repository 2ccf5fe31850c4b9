// data/feature/fg/tokens/unicode.h - characters of UTF-8 text and their kinds, for tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

bool is_letter(uint32_t c);       // category L
bool is_numeric(uint32_t c);      // category N
bool is_white_space(uint32_t c);  // property White_Space
bool is_ideograph(uint32_t c);    // Chinese characters

// A character of a text and where it is.
struct Character {
  uint32_t code = 0;
  uint32_t begin = 0;  // its bytes are [begin, end)
  uint32_t end = 0;
};

// Bytes that are not UTF-8 are characters of their own, U+FFFD.
std::vector<Character> characters_of(std::string_view text);

}  // namespace emblem
