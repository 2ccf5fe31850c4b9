#include "data/source/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

std::unique_ptr<FileLock> FileLock::try_lock(const std::string& path, LockMode mode) {
  while (true) {
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (file.get() < 0)
      throw Error(ErrorCode::kUnavailable, cat("cannot lock ", path, ": ", std::strerror(errno)));
    if (::flock(file.get(), (mode == LockMode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      throw Error(ErrorCode::kUnavailable, cat("cannot lock ", path, ": ", std::strerror(errno)));
    }
    struct stat opened {
    }, named{};
    const bool same = ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
                      opened.st_ino == named.st_ino;
    // Its last holder removed it between open and flock otherwise.
    if (same) return std::unique_ptr<FileLock>(new FileLock(path, mode, file.release()));
  }
}

FileLock::~FileLock() {
  if (mode_ == LockMode::kExclusive) ::unlink(path_.c_str());
}

void FileLock::sign() const {
  const std::string text = cat(::getpid(), "\n");
  if (::pwrite(descriptor_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    log_debug(cat("cannot write ", path_));  // a full disk: the lock holds all the same
}

std::string lock_holder(const std::string& path) {
  try {
    const std::string text(trim(read_text_file(path)));
    if (!text.empty()) return "process " + printable(text);
  } catch (const Error&) {  // just released
  }
  return "another process";
}

}  // namespace emblem
