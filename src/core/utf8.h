// core/utf8.h - whether text is UTF-8.
#pragma once

#include <string_view>

namespace emblem {

// The length of the UTF-8 sequence at the front of `text`, 0 when there is none. `text` is not
// empty.
size_t utf8_length(std::string_view text);

// The first byte that is not UTF-8, or npos. `is_part`: `text` continues elsewhere, so that a
// sequence which its end cuts is not an error.
size_t find_invalid_utf8(std::string_view text, bool is_part = false);

}  // namespace emblem
