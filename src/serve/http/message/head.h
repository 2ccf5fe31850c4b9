// serve/http/message/head.h - the heads of responses.
#pragma once

#include <cstddef>
#include <string>

#include "serve/http/message/message.h"

namespace emblem {

// Status line and headers, up to and with the empty line.
std::string response_head(const HttpResponse& response, size_t body_bytes, bool keep_alive);

}  // namespace emblem
