// data/format/crash_notice.h - a line for the user in place of a core dump.
#pragma once

#include <string>

namespace emblem {

// While it lives, a memory fault of this thread ends the process with `line` on standard error and
// exit status 1. For libraries that do not survive damaged files. One per thread at a time.
class CrashNotice {
 public:
  explicit CrashNotice(const std::string& line);
  ~CrashNotice();
  CrashNotice(const CrashNotice&) = delete;
  CrashNotice& operator=(const CrashNotice&) = delete;

 private:
  std::string line_;
};

}  // namespace emblem
