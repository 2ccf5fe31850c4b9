// launch/rank_command.h - the command of a rank, and how it is sent to another host.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/hosts.h"

namespace emblem {

struct RankCommand {
  std::vector<std::string> arguments;  // the program first
  std::string folder;                  // where it runs
  std::vector<std::pair<std::string, std::string>> environment;
};

// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
std::vector<std::pair<std::string, std::string>> rank_variables(const RankSlot& slot,
                                                                const std::string& address,
                                                                int port);
// This process's variables whose names begin with EMBLEM_.
std::vector<std::pair<std::string, std::string>> emblem_variables();

// Variables for a share of this machine's CPUs (EMBLEM_THREADS, OMP_NUM_THREADS) for each of
// `local_size` ranks, unless they are in `environment` or in that of this process.
void add_cpu_share(int local_size, std::vector<std::pair<std::string, std::string>>& environment);

// Any bytes survive: the number of bytes in a line, then texts that end with a zero byte.
std::string encode(const RankCommand& command);
// Takes a command from the beginning of `received`; empty: bytes are missing. Throws kCorruption
// for anything else, and kUnsupported where another version of emblem sent it.
std::optional<RankCommand> take_command(std::string& received);

// One word for a POSIX shell.
std::string shell_quoted(std::string_view word);

}  // namespace emblem
