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

// The name of the first parameter of the target's query: "x" of "/v2?x=1&y=2"; "": none.
std::string_view first_query_name(std::string_view target);

}  // namespace emblem
