// serve/http_head.h - the heads of responses, and what heads of requests must prove.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "serve/http_message.h"

namespace emblem {

// Status line and headers, up to and with the empty line.
std::string response_head(const HttpResponse& response, size_t body_bytes, bool keep_alive);

// Whether an Authorization header carries the token. Takes the same time however wrong it is.
bool carries_token(std::string_view authorization, std::string_view token);

}  // namespace emblem
