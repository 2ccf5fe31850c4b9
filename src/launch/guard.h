// launch/guard.h - a process that outlives this one to end what it started.
#pragma once

#include <sys/types.h>

#include "core/files/file_descriptor.h"

namespace emblem {

// The system kills a child with its parent, but not what the child has started. When this process
// ends in whatever way (SIGKILL), the guard kills the process groups that it watches.
class Guard {
 public:
  Guard();   // forks; before other threads exist
  ~Guard();  // ends the guard; kills what is still watched
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void watch(pid_t group);
  void forget(pid_t group);

 private:
  void send(pid_t message);

  FileDescriptor to_guard_{-1};
  pid_t process_ = -1;
};

}  // namespace emblem
