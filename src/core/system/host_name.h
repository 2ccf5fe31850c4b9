// core/system/host_name.h - the name of this machine, for messages and to distinguish machines.
#pragma once

#include <unistd.h>

#include <climits>
#include <string>

namespace emblem {

inline std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace emblem
