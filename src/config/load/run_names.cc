#include "config/load/run_names.h"

#include <algorithm>

#include "core/text/parse_number.h"

namespace emblem {
namespace {

constexpr size_t kLongestInner = 40;  // bytes between braces

}  // namespace

size_t names_of_runs(std::string_view text) {
  size_t names = 0;
  for (size_t open = text.find('{'); open != std::string_view::npos;
       open = text.find('{', open + 1)) {
    const std::string_view ahead = text.substr(open + 1, kLongestInner);
    const std::string_view inner = ahead.substr(0, ahead.find('}'));
    const size_t dots = inner.find("..");
    if (inner.size() == ahead.size() || dots == std::string_view::npos) continue;
    const auto first = parse_number<int64_t>(inner.substr(0, dots));
    const auto last = parse_number<int64_t>(inner.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first) continue;
    names += static_cast<size_t>(std::min(*last - *first, kLongestRun - 1)) + 1;
  }
  return names;
}

}  // namespace emblem
