// init/lower_case.h - ASCII letters in lower case, for comparing words.
#pragma once

#include <string>
#include <string_view>

namespace emblem {

inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace emblem
