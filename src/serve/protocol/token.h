// serve/protocol/token.h - the bearer token of requests.
#pragma once

#include <string_view>

#include "core/constant_time.h"

namespace emblem {

// Whether an Authorization header has the token. Takes the same time however wrong it is.
bool carries_token(std::string_view authorization, std::string_view token);

}  // namespace emblem
