// core/text/utf8.h - whether text is UTF-8; characters as UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

// The length of the UTF-8 sequence at the front of `text`, 0 when there is none. `text` is not
// empty.
size_t utf8_length(std::string_view text);

// The first byte that is not UTF-8, or npos. `is_part`: `text` continues elsewhere, so that a
// sequence which its end cuts is not an error.
size_t find_invalid_utf8(std::string_view text, bool is_part = false);

// Writes a character, up to 4 bytes; returns how many.
size_t write_utf8(uint32_t character, char* text);

inline void append_utf8(uint32_t character, std::string& text) {
  char bytes[4];
  text.append(bytes, write_utf8(character, bytes));
}

}  // namespace emblem
