#include "data/feature/fg/tokens/unicode.h"

#include "core/text/utf8.h"

namespace emblem {

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    uint32_t code = 0xFFFD;
    if (length > 0) {
      const auto first = static_cast<uint8_t>(text[at]);
      code = length == 1 ? first : first & (0x7Fu >> length);
      for (size_t i = 1; i < length; ++i)
        code = code << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
    }
    const size_t end = at + (length > 0 ? length : 1);
    characters.push_back({code, static_cast<uint32_t>(at), static_cast<uint32_t>(end)});
    at = end;
  }
  return characters;
}

}  // namespace emblem
