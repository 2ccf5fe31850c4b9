// comm/tcp/tcp.h - ranks that are processes, connected by TCP: every rank with every other.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/tcp/join.h"
#include "comm/threads/threads.h"
#include "comm/watch.h"

namespace emblem {

struct TcpSettings {
  JoinSettings join;
  WatchSettings watch;
  double collective_seconds = kCollectiveSeconds;
};

// Returns when all ranks are connected. CPU memory. The destructor leaves the job: it waits a few
// seconds for the others, or, while an exception ends this rank, tells them so.
std::unique_ptr<Communicator> connect_by_tcp(const TcpSettings& settings);

}  // namespace emblem
