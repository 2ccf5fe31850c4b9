// comm/visitors.h - connections to a listening socket that have not said yet who they are. Those
// that say something else than a rank would, or nothing, are dropped: the port is open to anyone.
#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

#include "comm/message.h"
#include "comm/socket.h"

namespace emblem {

class Visitors {
 public:
  explicit Visitors(FileDescriptor listener) : listener_(std::move(listener)) {}

  struct Arrived {
    FileDescriptor connection;
    Message first;  // its first message, of any kind
  };

  // What to wait for.
  void add_to(std::vector<pollfd>& waiting) const;
  // Accepts and reads what is there; never blocks.
  std::vector<Arrived> collect();
  // Logs that a visitor was not a rank of this job; a few times at most.
  void report(int connection, const char* reason);

 private:
  struct Pending {
    FileDescriptor connection;
    MessageReader reader{MessageReader::Start::kMagic};
    Deadline deadline;
  };
  bool read_first(Pending& pending, std::vector<Arrived>& arrived);  // whether it is still pending

  FileDescriptor listener_;
  std::vector<Pending> pending_;
  int reports_ = 0;
};

}  // namespace emblem
