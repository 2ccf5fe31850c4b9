#include "core/files/open_files.h"

#include <dirent.h>
#include <sys/resource.h>

#include <limits>
#include <memory>

namespace emblem {

void raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

size_t open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(limit.rlim_cur);
}

size_t open_files() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (!folder) return 0;
  size_t entries = 0;
  while (readdir(folder.get()) != nullptr) ++entries;
  constexpr size_t kOthers = 3;  // ".", ".." and the folder itself
  return entries > kOthers ? entries - kOthers : 0;
}

}  // namespace emblem
