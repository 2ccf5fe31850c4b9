// core/system/pipe.h - a pipe whose ends are closed with their owner.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "core/files/file_descriptor.h"
#include "emblem/error.h"

namespace emblem {

struct Pipe {
  FileDescriptor reader{-1}, writer{-1};
};

// Programs that are started do not inherit it. `flags`: O_NONBLOCK. Throws kUnavailable.
inline Pipe make_pipe(int flags = 0) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | flags) != 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot create a pipe: ", std::strerror(errno)));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace emblem
