#include "core/system/address_space.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace emblem {

int64_t free_address_space_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur > INT64_MAX) return INT64_MAX;
  std::ifstream statm("/proc/self/statm");
  int64_t mapped_pages = 0;
  statm >> mapped_pages;
  return std::max<int64_t>(
      0, static_cast<int64_t>(limit.rlim_cur) - mapped_pages * sysconf(_SC_PAGESIZE));
}

}  // namespace emblem
