// core/constant_time.h - comparisons of secrets, whose time says nothing about them.
#pragma once

#include <cstddef>
#include <string_view>

namespace emblem {

// Takes the same time wherever texts of one length differ.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace emblem
