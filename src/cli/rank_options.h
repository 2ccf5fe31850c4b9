// cli/rank_options.h - options of commands that run as one of several ranks.
#pragma once

#include "cli/command.h"
#include "comm/tcp/launcher.h"

namespace emblem {

// --rendezvous, and --meet, its old name.
void add_rendezvous_option(Command& command, std::string& variable, const std::string& text);

// --rank, --world, --rendezvous, --ranks-from
void add_rank_options(Command& command, RankOptions& options);

// What connects the ranks of a command, and their GPUs.
struct TransportOptions {
  std::string ranks = "auto", device = "auto";
};
// --transport, --device-transport
void add_transport_options(Command& command, TransportOptions& options);

}  // namespace emblem
