// cli/rank_options.h - options of commands that run as one of several ranks.
#pragma once

#include "cli/command.h"
#include "comm/launcher.h"

namespace emblem {

// --rank, --world, --meet, --ranks-from
void add_rank_options(Command& command, RankOptions& options);

// What connects the ranks of a command, and their GPUs.
struct TransportOptions {
  std::string ranks = "auto", device = "auto";
};
// --transport, --device-transport
void add_transport_options(Command& command, TransportOptions& options);

}  // namespace emblem
