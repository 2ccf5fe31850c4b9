// core/threads/start_thread.h - threads whose failure to start is an Error that says what to do.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "emblem/error.h"

namespace emblem {

// kUnavailable: the system allows no more threads.
class ThreadLimitError : public Error {
 public:
  ThreadLimitError(const char* purpose, const std::system_error& error)
      : Error(ErrorCode::kUnavailable,
              cat("cannot start a thread for ", purpose, ": ", error.code().message(),
                  "; use fewer threads, or raise the limit (ulimit -u, or TasksMax of the "
                  "service)")) {}
};

// A thread that runs `body`, which no exception may leave (core/system/caught_error.h). Throws
// ThreadLimitError; `purpose` is what the thread is for: "HTTP connections".
template <class Body>
std::thread start_thread(const char* purpose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw ThreadLimitError(purpose, error);
  }
}

// Throws ThreadLimitError unless `count` more threads can be started now. For libraries that abort
// or hang when they cannot start theirs.
void require_threads(int count, const char* purpose);

}  // namespace emblem
