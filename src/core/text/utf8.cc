#include "core/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace emblem {
namespace {

// The length by the first byte; 0 when no sequence starts with it.
size_t announced_length(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// The first byte from `at` on that may not be ASCII.
size_t skip_ascii(std::string_view text, size_t at) {
  uint64_t word = 0;
  for (; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  return at;
}

bool is_continuation(char byte) { return (byte & 0xc0) == 0x80; }

}  // namespace

size_t utf8_length(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = announced_length(first);
  if (length < 2) return length;
  if (text.size() < length) return 0;
  if (!std::all_of(text.begin() + 1, text.begin() + static_cast<int64_t>(length), is_continuation))
    return 0;
  const auto second = static_cast<uint8_t>(text[1]);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

size_t find_invalid_utf8(std::string_view text, bool is_part) {
  for (size_t at = skip_ascii(text, 0); at < text.size();) {
    const std::string_view rest = text.substr(at);
    const size_t length = utf8_length(rest);
    if (length == 0) {
      const bool cut = is_part && announced_length(static_cast<uint8_t>(rest[0])) > rest.size() &&
                       std::all_of(rest.begin() + 1, rest.end(), is_continuation);
      return cut ? std::string_view::npos : at;
    }
    at = length == 1 ? skip_ascii(text, at + 1) : at + length;
  }
  return std::string_view::npos;
}

size_t write_utf8(uint32_t character, char* text) {
  size_t size = 0;
  const auto put = [&](uint32_t byte) { text[size++] = static_cast<char>(byte); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6);
    put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  }
  return size;
}

}  // namespace emblem
