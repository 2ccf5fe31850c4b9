#include "comm/tcp/host_name.h"

#include <cstdlib>

namespace emblem {

std::string rank_host_name() {
  const char* given = std::getenv(kHostNameVariable);
  return given != nullptr && *given != '\0' ? given : host_name();
}

}  // namespace emblem
