// serve/protocol/token.h - the secret that requests carry.
#pragma once

#include <string_view>

namespace emblem {

// Whether an Authorization header carries the token. Takes the same time however wrong it is.
bool carries_token(std::string_view authorization, std::string_view token);

}  // namespace emblem
