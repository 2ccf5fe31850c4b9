#include "core/text/json_error.h"

#include <optional>

#include "emblem/error.h"

namespace emblem {
namespace {

// What is between `begin` and `end` in the text, if both are there.
std::optional<std::string_view> between(std::string_view text, std::string_view begin,
                                        std::string_view end) {
  const size_t at = text.find(begin);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + begin.size());
  const size_t length = text.find(end);
  if (length == std::string_view::npos) return std::nullopt;
  return text.substr(0, length);
}

}  // namespace

std::string json_problem(std::string_view what) {
  constexpr std::string_view kBegin = "[json.exception.";
  if (!what.starts_with(kBegin)) return std::string(what);
  if (const auto place = between(what, "parse error at ", ":")) {
    const bool is_cut = what.find("unexpected end of input") != std::string_view::npos;
    return cat(*place, is_cut ? ": unexpected end of input" : ": unexpected text");
  }
  if (const auto key = between(what, "key '", "' not found"))
    return cat('"', *key, "\" is missing");
  if (const auto expected = between(what, "type must be ", ", but is "))
    return cat("expected ", *expected, ", found ", what.substr(what.rfind(' ') + 1));
  if (what.substr(kBegin.size()).starts_with("out_of_range")) return "a number is too large";
  return "a value has the wrong type";
}

}  // namespace emblem
