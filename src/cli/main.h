// cli/main.h - the program `emblem`.
#pragma once

namespace emblem {

// Parses the arguments, runs a command and returns the exit status: 0 success, 1 failure, 2 invalid
// usage.
int run_command_line(int argc, char** argv);

}  // namespace emblem
