// core/text/joined.h - values side by side in one text: "a, b, c".
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "emblem/error.h"

namespace emblem {

// What `shown` makes of each value: a function or a member.
template <class Values, class Shown = std::identity>
std::string joined(const Values& values, std::string_view separator = ", ", Shown shown = {}) {
  std::string text;
  for (const auto& value : values)
    text += cat(text.empty() ? "" : separator, std::invoke(shown, value));
  return text;
}

}  // namespace emblem
