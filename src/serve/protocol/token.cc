#include "serve/protocol/token.h"

#include <strings.h>

#include "core/text.h"

namespace emblem {

bool carries_token(std::string_view authorization, std::string_view token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() < kScheme.size() ||
      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0)
    return false;
  return equal_in_constant_time(trim(authorization.substr(kScheme.size())), token);
}

}  // namespace emblem
