// serve/http/message/target.h - the target of a request as the names between its slashes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// "/v2/models/my%20model/infer?x=1" -> {"v2", "models", "my model", "infer"}; "/" -> {}.
// Throws kInvalidArgument for what no name can be: empty, "." and "..", with a slash, backslash or
// control character, or wrongly encoded.
std::vector<std::string> split_target(std::string_view target);

}  // namespace emblem
