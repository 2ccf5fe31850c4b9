// comm/tcp/join.h - how processes become the ranks of one job: they meet at rank 0, which compares
// what must be equal and tells everyone where the others are.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/tcp/message.h"
#include "core/files/file_descriptor.h"
#include "core/system/tcp_connect.h"
#include "emblem/api.h"

namespace emblem {

struct JoinSettings {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";  // address of rank 0: a name or a number
  uint16_t port = 0;                  // port of rank 0; 0: a free one, which on_listening is told
  std::string transport = "tcp";
  std::string version = kVersion;  // version of the program; ranks with another one are refused
  uint64_t configuration = 0;      // a hash of what must be equal on all ranks
  std::string host;                // its name; empty: rank_host_name()
  double join_seconds = 60;        // for all ranks to be there
  std::string problem;             // why this rank cannot take part: the others end with it
  std::string secret;              // secret of the job (comm/tcp/secret.h); empty: it has none
  // On rank 0, when the others may be started: the port where it listens.
  std::function<void(uint16_t port)> on_listening;
};

// A rank's place in a job that has been formed.
struct Membership {
  int rank = 0;
  Roster roster;
  std::vector<RankHost> hosts;
  // Connections for heartbeats and failures. On rank 0: to every rank (none to itself). Else: one,
  // to rank 0.
  std::vector<FileDescriptor> control;
  FileDescriptor data_listener{-1};  // where higher ranks connect to this one
  std::string secret;                // JoinSettings::secret
};

// Throws Error with one line, equal on all ranks that have arrived: a rank is missing after
// join_seconds, two processes are the same rank, the number of ranks, the transport, the version or
// the configuration differs, the port is in use. Connections of strangers are ignored; where the
// job has a secret, those are strangers that do not know it.
Membership join_job(const JoinSettings& settings);

// Instead of join_job, for a rank that cannot take part: those that wait for it end with this
// rank's name and `problem`. Takes a few seconds at most where they cannot be reached.
void refuse_to_join(JoinSettings settings, const std::string& problem) noexcept;

}  // namespace emblem
