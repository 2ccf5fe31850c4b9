// serve/protocol/encoding/base64.h - bytes in JSON.
#pragma once

#include <string>
#include <string_view>

namespace emblem {

// Throws kInvalidArgument when `text` is not in base64.
std::string decode_base64(std::string_view text);

}  // namespace emblem
