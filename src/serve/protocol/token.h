// serve/protocol/token.h - the bearer token of requests.
#pragma once

#include <string_view>

namespace emblem {

// Takes the same time wherever texts of one length differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Whether an Authorization header has the token. Takes the same time however wrong it is.
bool carries_token(std::string_view authorization, std::string_view token);

}  // namespace emblem
