// comm/tcp/pending_connections.h - connections to a listening socket that are not identified
// yet. Those that send something else than a rank would, or nothing, or do not know the secret
// of the job, are dropped: the port is open to anyone.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/tcp/message.h"
#include "comm/tcp/secret.h"
#include "comm/tcp/socket.h"

namespace emblem {

class PendingConnections {
 public:
  struct Limits {
    size_t connections = 1024;  // each may hold two messages of comm/tcp/message.h
    std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
  };
  // `secret` of the job (comm/tcp/secret.h); empty: it has none.
  PendingConnections(FileDescriptor listener, std::string secret, Limits limits)
      : listener_(std::move(listener)), secret_(std::move(secret)), limits_(std::move(limits)) {}
  PendingConnections(FileDescriptor listener, std::string secret)
      : PendingConnections(std::move(listener), std::move(secret), Limits{}) {}

  struct Arrived {
    FileDescriptor connection;
    Message first;  // its first message, of any kind but those of a proof
  };

  // What to wait for.
  void add_to(std::vector<pollfd>& waiting) const;
  // Accepts and reads what is there; never blocks.
  std::vector<Arrived> collect();
  // Logs that a connection was not from a rank of this job; a few times at most.
  void report(int connection, const char* reason);

 private:
  struct Pending {
    FileDescriptor connection{-1};
    MessageReader reader{MessageReader::Start::kMagic};
    std::chrono::steady_clock::time_point accepted;
    std::optional<Message> challenge, first;
    std::optional<ListeningProof> proof;
  };
  void accept_all();
  // Whether it is still pending.
  bool read_first(Pending& pending, std::vector<Arrived>& arrived);
  bool take(Pending& pending, Message message, std::vector<Arrived>& arrived);
  bool refuse(Pending& pending, const std::string& line);

  FileDescriptor listener_;
  const std::string secret_;
  const Limits limits_;
  std::vector<Pending> pending_;
  bool is_full_ = false;  // there is no place, or no file descriptor, for another one
  int reports_ = 0;
};

}  // namespace emblem
