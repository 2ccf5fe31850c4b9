#include "comm/tcp/host_name.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace emblem {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string rank_host_name() {
  const char* given = std::getenv(kHostNameVariable);
  return given != nullptr && *given != '\0' ? given : host_name();
}

}  // namespace emblem
