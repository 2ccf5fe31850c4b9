// core/text/parse_number.h - numbers of settings and messages.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace emblem {

// Nothing unless all of `text` is one decimal number, which Number holds.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace emblem
