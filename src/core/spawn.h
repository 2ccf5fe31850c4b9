// core/spawn.h - starts another program as a child of this process.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace emblem {

struct Spawn {
  std::vector<std::string> arguments;  // the program first: a path, or a name to look up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::vector<std::string> removed;                              // variables it does not inherit
  std::string folder;        // where it runs; empty: where this process does
  int input = -1;            // its stdin; -1: empty
  int output, error_output;  // its stdout and stderr
};

// The process id. The program leads a session and a process group of its own, without a terminal,
// and is killed when this thread ends. No descriptor is inherited that has O_CLOEXEC. Throws Error
// with the system's reason: "cannot start /x/emblem: No such file or directory". The caller waits
// for it.
pid_t spawn(const Spawn& program);

}  // namespace emblem
