#include "core/self_checksum.h"

#include <cstdio>
#include <stdexcept>
#include <string_view>

#include "core/checksum.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr std::string_view kKey = "\"checksum\": \"";
constexpr size_t kDigits = 16;

// Of the digits; npos: there are none.
size_t find_digits(const std::string& text) {
  const size_t key = text.find(kKey);
  if (key == std::string::npos || key + kKey.size() + kDigits > text.size())
    return std::string::npos;
  return key + kKey.size();
}

std::string digits_of(std::string text, size_t at) {
  text.replace(at, kDigits, kDigits, '0');
  Checksum checksum;
  checksum.add(text.data(), text.size());
  return checksum_digits(checksum.value());
}

}  // namespace

std::string checksum_digits(uint64_t checksum) {
  char text[kDigits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum));
  return text;
}

uint64_t parse_checksum_digits(const std::string& text) {
  const bool are_digits = text.size() == kDigits &&
                          text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!are_digits) throw std::invalid_argument(cat("checksum ", text));
  return std::stoull(text, nullptr, 16);
}

std::string no_checksum() { return std::string(kDigits, '0'); }

std::string set_self_checksum(std::string text) {
  const size_t at = find_digits(text);
  EMBLEM_REQUIRE(at != std::string::npos, "checksum: the text has no place for one");
  return text.replace(at, kDigits, digits_of(text, at));
}

bool has_valid_self_checksum(const std::string& text) {
  const size_t at = find_digits(text);
  return at != std::string::npos && text.compare(at, kDigits, digits_of(text, at)) == 0;
}

}  // namespace emblem
