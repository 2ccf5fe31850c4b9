// comm/open.h - the communicator of this process, however it was started.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/tcp/launcher.h"
#include "comm/tcp/tcp.h"

namespace emblem {

// "auto": TCP where rank 0 has an address, else MPI. One rank needs no transport: it is a thread
// rank, unless "mpi" is asked for. Rank, size and rendezvous of `settings` come from `place`.
std::unique_ptr<Communicator> open_communicator(const RankPlace& place,
                                                const std::string& transport,
                                                TcpSettings settings = {});

}  // namespace emblem
