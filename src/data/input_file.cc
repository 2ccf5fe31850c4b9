#include "data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "data/read_throttle.h"
#include "emblem/error.h"

namespace emblem {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 && errno == EMFILE) {
    throw Error(ErrorCode::kUnavailable,
                cat("cannot open ", path_,
                    ": this process may not have more files open; raise "
                    "`ulimit -n`, or join small files by `emblem convert --bundle-gb 1`"));
  }
  if (descriptor_ < 0) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                cat("cannot open ", path_, ": ", std::strerror(errno)));
  }
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  bytes_ = static_cast<int64_t>(status.st_size);
  if (known && S_ISREG(status.st_mode) && bytes_ > 0) return;
  const int error = errno;
  ::close(descriptor_);
  if (!known)
    throw Error(ErrorCode::kUnavailable, cat("cannot read ", path_, ": ", std::strerror(error)));
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument, cat(path_, " is not a file; give a file of data"));
  }
  throw Error(ErrorCode::kCorruption, cat(path_, " is empty; expected a file with rows"));
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_) {}

void InputFile::read(int64_t offset, int64_t count, void* into) const {
  throttle_read(count);
  char* at = static_cast<char*>(into);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, at, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(ErrorCode::kUnavailable, cat("cannot read ", path_, ": ", std::strerror(errno)));
    }
    if (got == 0) {
      throw Error(ErrorCode::kCorruption,
                  cat(path_, " became shorter while it was read: it ends at byte ", offset,
                      ", it had ", bytes_, " bytes"));
    }
    at += got;
    offset += got;
    count -= got;
  }
}

}  // namespace emblem
