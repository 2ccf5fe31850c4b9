// core/text/json_error.h - what nlohmann's exceptions say, for messages to users.
#pragma once

#include <string_view>

namespace emblem {

// `what` without the name of the exception at its beginning, "[json.exception.parse_error.101] ",
// and without what was read of the text last, which is not for everyone who may see the message.
inline std::string_view json_problem(std::string_view what) {
  if (!what.starts_with("[json.exception")) return what;
  const size_t end = what.find("] ");
  if (end != std::string_view::npos) what.remove_prefix(end + 2);
  return what.substr(0, what.find("; last read"));
}

}  // namespace emblem
