// cli/main.h - the program `emblem`.
#pragma once

namespace emblem {

// Parses, runs a subcommand, and returns the exit status: 0 success, 1 a failed run, 2 bad usage.
int run_command_line(int argc, char** argv);

}  // namespace emblem
