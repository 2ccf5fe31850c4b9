#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "core/files/file.h"
#include "core/system/host_name.h"
#include "core/text/text.h"
#include "data/source/cache_entry.h"
#include "emblem/error.h"
#include "remote/store_lock.h"

namespace emblem {
namespace {

std::string this_host() {
#if defined(EMBLEM_TEST_HOOKS)
  if (const char* name = std::getenv("EMBLEM_TEST_HOST")) return name;
#endif
  return host_name();
}

std::string process_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

// The 22nd value of /proc/PID/stat, the 20th after the name in parentheses; 0: not known.
int64_t start_of(int64_t process) {
  try {
    const std::string text = read_text_file(cat("/proc/", process, "/stat"));
    const std::vector<std::string> values = split(text.substr(text.rfind(')') + 2), ' ');
    return values.size() > 19 ? std::atoll(values[19].c_str()) : 0;
  } catch (const Error&) {
    return 0;
  }
}

std::string machine() { return cat(this_host(), " ", boot_id(), " ", process_namespace()); }

}  // namespace

LockOwner this_process() {
  std::random_device random;
  const uint64_t id = (uint64_t{random()} << 32) ^ random();
  return {cat(std::hex, id), this_host(), machine(), ::getpid(), start_of(::getpid())};
}

bool has_ended(const LockOwner& owner) {
  if (owner.machine != machine() || owner.process <= 0) return false;
  if (::kill(static_cast<pid_t>(owner.process), 0) != 0 && errno == ESRCH) return true;
  const int64_t started = start_of(owner.process);
  return started != 0 && owner.started != 0 && started != owner.started;
}

}  // namespace emblem
