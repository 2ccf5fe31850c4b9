#include "cli/numbers.h"

#include <charconv>

#include "emblem/error.h"

namespace emblem {

CLI::Validator whole_number_from(int64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least) return "";
    return cat(text, " is not a whole number of at least ", least);
  };
  return CLI::Validator(check, "", "whole number");
}

}  // namespace emblem
