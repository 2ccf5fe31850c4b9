#include "config/load/run_names.h"

#include <algorithm>
#include <charconv>

namespace emblem {
namespace {

constexpr size_t kLongestInner = 40;  // bytes between braces

bool read_whole(std::string_view digits, int64_t* number) {
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, *number);
  return error == std::errc() && rest == end && *number >= 0;
}

}  // namespace

size_t names_of_runs(std::string_view text) {
  size_t names = 0;
  for (size_t open = text.find('{'); open != std::string_view::npos;
       open = text.find('{', open + 1)) {
    const std::string_view ahead = text.substr(open + 1, kLongestInner);
    const std::string_view inner = ahead.substr(0, ahead.find('}'));
    const size_t dots = inner.find("..");
    int64_t first = 0, last = 0;
    if (inner.size() == ahead.size() || dots == std::string_view::npos ||
        !read_whole(inner.substr(0, dots), &first) || !read_whole(inner.substr(dots + 2), &last) ||
        last < first)
      continue;
    names += static_cast<size_t>(std::min(last - first + 1, kLongestRun));
  }
  return names;
}

}  // namespace emblem
