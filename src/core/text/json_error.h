// core/text/json_error.h - what nlohmann's exceptions say, in words for users.
#pragma once

#include <string>
#include <string_view>

namespace emblem {

// Where a text is not JSON, or which of its values is missing or of the wrong type. Nothing of the
// text itself, which is not for everyone who may see the message. Other messages stay as they are.
std::string json_problem(std::string_view what);

}  // namespace emblem
