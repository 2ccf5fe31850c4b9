// core/json_error.h - what nlohmann's exceptions say, for messages to users.
#pragma once

#include <string_view>

namespace emblem {

// `what` without the name of the exception at its beginning: "[json.exception.parse_error.101] ".
inline std::string_view json_problem(std::string_view what) {
  if (!what.starts_with("[json.exception")) return what;
  const size_t end = what.find("] ");
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

}  // namespace emblem
