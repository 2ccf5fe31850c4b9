#include "comm/tcp/join.h"

#include <unistd.h>

#include <map>
#include <random>
#include <thread>

#include "comm/tcp/host_name.h"
#include "comm/tcp/pending_connections.h"
#include "comm/tcp/secret.h"
#include "comm/tcp/socket.h"
#include "core/system/caught_error.h"
#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/system/tcp_connect.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kTick = milliseconds(200);                // between looks at Ctrl-C
constexpr auto kRefusalGrace = std::chrono::seconds(3);  // for ranks that have not arrived yet
constexpr double kProblemSeconds = 3;                    // for the others to hear of one
constexpr auto kSendTime = std::chrono::seconds(5);      // for a message that fits socket buffers

Deadline after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

[[noreturn]] void unavailable(const std::string& line) {
  throw Error(ErrorCode::kUnavailable, line);
}

void throw_if_interrupted() {
  if (interrupted())
    throw Error(ErrorCode::kCancelled, "interrupted while waiting for the other ranks");
}

void wait_for_any(std::vector<pollfd>& waiting, Deadline deadline) {
  throw_if_interrupted();
  poll(waiting.data(), waiting.size(), poll_timeout(std::min(deadline, Clock::now() + kTick)));
}

std::string name_of(const Introduction& one) { return name_of_rank(one.rank, one.host); }

Introduction introduction_of(const JoinSettings& settings, uint16_t data_port) {
  return {settings.rank,
          settings.size,
          getpid(),
          data_port,
          settings.host.empty() ? rank_host_name() : settings.host,
          settings.transport,
          settings.version,
          settings.configuration,
          settings.problem};
}

// Why both cannot be ranks of one job; "" if they can.
std::string difference(const Introduction& zero, const Introduction& other) {
  const auto differs = [&](const char* what, const auto& theirs, const auto& ours,
                           const char* advice) {
    return cat(name_of(other), " has ", what, " ", theirs, ", ", name_of(zero), " has ", ours, "; ",
               advice);
  };
  if (!other.problem.empty()) return cat(name_of(other), ": ", other.problem);
  if (other.version != zero.version)
    return differs("emblem", other.version, zero.version, "start the same version everywhere");
  if (other.size != zero.size)
    return differs("a number of ranks of", other.size, zero.size,
                   "give all ranks the same number, and each job a port of its own");
  if (other.transport != zero.transport)
    return differs("transport", other.transport, zero.transport, "choose one for all ranks");
  if (other.configuration != zero.configuration)
    return differs("a configuration with hash", other.configuration, zero.configuration,
                   "start all ranks with the same pipeline and options");
  if (other.rank < 1 || other.rank >= zero.size)
    return cat("a process on host ", other.host, " says it is rank ", other.rank, " of ", zero.size,
               "; expected 1 to ", zero.size - 1);
  return "";
}

// Rank 0: waits for the others.
class Rendezvous {
 public:
  Rendezvous(const JoinSettings& settings, const Introduction& own, FileDescriptor listener)
      : settings_(settings), own_(own), connections_(std::move(listener), settings.secret) {
    if (!own.problem.empty()) refusal_ = cat(name_of(own), ": ", own.problem);
  }

  // Connections by rank, and who they are.
  struct Member {
    FileDescriptor connection;
    Introduction introduction;
  };
  std::map<int, Member> gather() {
    Deadline deadline = after(settings_.join_seconds);
    while (members_.size() + 1 < static_cast<size_t>(settings_.size) || !refusal_.empty()) {
      if (Clock::now() >= deadline) refuse(refusal_.empty() ? missing_line() : refusal_);
      std::vector<pollfd> waiting;
      connections_.add_to(waiting);
      for (const auto& [rank, member] : members_)
        waiting.push_back({member.connection.get(), POLLIN, 0});
      wait_for_any(waiting, deadline);
      for (PendingConnections::Arrived& arrived : connections_.collect()) {
        if (refusal_.empty())
          receive(std::move(arrived));
        else
          refused_.push_back(std::move(arrived.connection));
        if (!refusal_.empty()) deadline = std::min(deadline, Clock::now() + kRefusalGrace);
      }
      if (!refusal_.empty() && refused_.size() + members_.size() + 1 >= expected_connections())
        refuse(refusal_);
      drop_ended();
    }
    return std::move(members_);
  }

 private:
  size_t expected_connections() const { return static_cast<size_t>(settings_.size); }

  void receive(PendingConnections::Arrived arrived) {
    Introduction who;
    try {
      who = decode_introduction(arrived.first);
    } catch (const Error& error) {
      return connections_.report(arrived.connection.get(), error.what());
    }
    refusal_ = difference(own_, who);
    drop_ended();
    const auto same = members_.find(who.rank);
    if (refusal_.empty() && same != members_.end())
      refusal_ =
          cat("two processes are rank ", who.rank, ": process ", same->second.introduction.process,
              " on host ", same->second.introduction.host, " and process ", who.process,
              " on host ", who.host, "; give every process a rank of its own");
    if (refusal_.empty())
      members_.emplace(who.rank, Member{std::move(arrived.connection), std::move(who)});
    else
      refused_.push_back(std::move(arrived.connection));
  }

  // A rank that ended while it waited may be started again.
  void drop_ended() {
    std::erase_if(members_, [](const auto& entry) {
      const auto& [rank, member] = entry;
      char byte;
      if (::recv(member.connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) return false;
      log_warn(name_of(member.introduction) + " ended while ranks joined");
      return true;
    });
  }

  std::string missing_line() const {
    std::string missing;
    int count = 0;
    for (int rank = 1; rank < settings_.size; ++rank) {
      if (members_.contains(rank)) continue;
      if (++count <= 8) missing += cat(count == 1 ? "" : ", ", rank);
    }
    if (count > 8) missing += cat(" and ", count - 8, " more");
    return cat(count == 1 ? "rank " : "ranks ", missing, " of ", settings_.size, " did not join ",
               name_of(own_), " at ", settings_.address, ":", settings_.port, " within ",
               settings_.join_seconds,
               " s; start all ranks, and check that they reach this address");
  }

  [[noreturn]] void refuse(const std::string& line) {
    const std::string message = encode(MessageKind::kRefused, line);
    for (const auto& [rank, member] : members_)
      send_all(member.connection.get(), message, Clock::now() + kSendTime);
    for (const FileDescriptor& connection : refused_)
      send_all(connection.get(), message, Clock::now() + kSendTime);
    unavailable(line);
  }

  const JoinSettings& settings_;
  const Introduction& own_;
  PendingConnections connections_;
  std::map<int, Member> members_;
  std::string refusal_;
  std::vector<FileDescriptor> refused_;
};

uint64_t random_number() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// An address of rank 0's host that others reach, for ranks there that connected by loopback.
std::string outer_ip(const std::map<int, Rendezvous::Member>& members) {
  for (const auto& [rank, member] : members) {
    const SocketAddress local = local_address(member.connection.get());
    if (!is_loopback(local)) return ip_of(local);
  }
  return "";
}

Roster roster_of(const Introduction& own, const std::map<int, Rendezvous::Member>& members) {
  Roster roster;
  roster.job = random_number();
  std::map<std::string, int> ranks_of_host;
  roster.ranks.push_back({own.host, ranks_of_host[own.host]++, "", own.data_port});
  const std::string outer = outer_ip(members);
  for (const auto& [rank, member] : members) {
    const Introduction& who = member.introduction;
    const SocketAddress peer = peer_address(member.connection.get());
    roster.ranks.push_back({who.host, ranks_of_host[who.host]++,
                            is_loopback(peer) && !outer.empty() ? outer : ip_of(peer),
                            who.data_port});
  }
  return roster;
}

// IPv4 where there is both: not every host has IPv6.
const SocketAddress& preferred(const std::vector<SocketAddress>& addresses) {
  for (const SocketAddress& address : addresses)
    if (address.bytes.ss_family == AF_INET) return address;
  return addresses.front();
}

// Listens for data, at a free port.
FileDescriptor listen_near(const SocketAddress& local, const JoinSettings& settings) {
  SocketAddress any_port = listening_address(local, settings.address);
  set_port(any_port, 0);
  return listen_on(any_port, settings.size + 16);
}

std::vector<RankHost> hosts_of(const Roster& roster) {
  std::vector<RankHost> hosts;
  for (const RosterEntry& entry : roster.ranks) hosts.push_back({entry.host, entry.local_rank});
  return hosts;
}

std::vector<SocketAddress> own_addresses(const JoinSettings& settings, Deadline deadline) {
  try {
    return HostResolver().resolve(settings.address, settings.port, deadline);
  } catch (const Error& error) {
    unavailable(cat(error.what(),
                    "; give an address of rank 0 that all ranks can reach (--rendezvous "
                    "HOST:PORT, MASTER_ADDR)"));
  }
}

Membership join_as_zero(JoinSettings settings) {
  const Deadline deadline = after(settings.join_seconds);
  const std::vector<SocketAddress> addresses = own_addresses(settings, deadline);
  Membership membership;
  FileDescriptor listener =
      listen_on(listening_address(preferred(addresses), settings.address), settings.size + 16);
  const SocketAddress bound = local_address(listener.get());
  membership.data_listener = listen_near(bound, settings);
  settings.port = port_of(bound);
  if (settings.on_listening) settings.on_listening(settings.port);

  const Introduction own =
      introduction_of(settings, port_of(local_address(membership.data_listener.get())));
  std::map<int, Rendezvous::Member> members =
      Rendezvous(settings, own, std::move(listener)).gather();
  membership.roster = roster_of(own, members);
  membership.hosts = hosts_of(membership.roster);
  membership.control.emplace_back(-1);
  const std::string message = encode(membership.roster);
  for (auto& [rank, member] : members) {
    send_all(member.connection.get(), message, Clock::now() + kSendTime);
    membership.control.push_back(std::move(member.connection));
  }
  return membership;
}

// Tries until rank 0 listens.
FileDescriptor connect_to_zero(const JoinSettings& settings, Deadline deadline) {
  HostResolver resolver;
  for (auto pause = milliseconds(10);; pause = std::min(2 * pause, milliseconds(500))) {
    throw_if_interrupted();
    try {
      const auto addresses = resolver.resolve(settings.address, settings.port, deadline);
      return FileDescriptor(
          connect_first(addresses, std::min(deadline, Clock::now() + std::chrono::seconds(5))));
    } catch (const Error& error) {
      if (Clock::now() + pause >= deadline)
        unavailable(cat("rank ", settings.rank, " (host ", rank_host_name(),
                        ") cannot reach rank 0 at ", settings.address, ":", settings.port,
                        " within ", settings.join_seconds, " s: ", error.what()));
    }
    std::this_thread::sleep_for(pause);
  }
}

// First rank 0 and this rank prove to each other that they know the secret, where there is one.
Roster receive_roster(int zero, const JoinSettings& settings, const ConnectingProof& proof,
                      Deadline deadline) {
  bool is_proved = !proof.is_needed();
  const std::string where = cat("rank 0 at ", settings.address, ":", settings.port);
  MessageReader reader(MessageReader::Start::kMessage);
  while (Clock::now() < deadline) {
    ReceivedMessage received;
    try {
      received = receive_message(zero, reader);
    } catch (const Error&) {
      unavailable(cat("not ", where, " of this job: another program answers there"));
    }
    if (received.message) {
      if (received.message->kind == MessageKind::kRefused) unavailable(received.message->body);
      if (is_proved) return decode_roster(*received.message);
      try {
        send_all(zero, proof.answer(*received.message), Clock::now() + kSendTime);
      } catch (const Error& error) {
        unavailable(cat(where, " ", error.what()));
      }
      is_proved = true;
      continue;
    }
    if (!received.end.empty())
      unavailable(cat(where, " ended while ranks joined, or is another version or program (",
                      received.end, ")"));
    std::vector<pollfd> waiting = {{zero, POLLIN, 0}};
    wait_for_any(waiting, deadline);
  }
  unavailable(cat(where, " did not answer within ", settings.join_seconds, " s"));
}

Membership join_as_worker(const JoinSettings& settings) {
  const Deadline deadline = after(settings.join_seconds);
  Membership membership;
  membership.rank = settings.rank;
  membership.control.push_back(connect_to_zero(settings, deadline));
  const int zero = membership.control.front().get();
  tune_connection(zero);
  membership.data_listener = listen_near(local_address(zero), settings);
  const Introduction own =
      introduction_of(settings, port_of(local_address(membership.data_listener.get())));
  const ConnectingProof proof(settings.secret, encode(own));
  send_all(zero, proof.opening(), deadline);
  // Rank 0 reports first when the time is over.
  membership.roster = receive_roster(zero, settings, proof, after(settings.join_seconds + 5));
  membership.roster.ranks.at(0).ip = ip_of(peer_address(zero));
  membership.hosts = hosts_of(membership.roster);
  return membership;
}

}  // namespace

void refuse_to_join(JoinSettings settings, const std::string& problem) noexcept {
  try {
    settings.problem = problem;
    settings.join_seconds = std::min(settings.join_seconds, kProblemSeconds);
    join_job(settings);
  } catch (...) {  // the refusal, or no rank is there to be told
    debug_caught("telling the other ranks");
  }
}

Membership join_job(const JoinSettings& settings) {
  EMBLEM_REQUIRE(settings.rank >= 0 && settings.rank < settings.size, "rank ", settings.rank,
                 " of ", settings.size, " ranks; expected 0 to ", settings.size - 1);
  Membership membership = settings.rank == 0 ? join_as_zero(settings) : join_as_worker(settings);
  membership.secret = settings.secret;
  return membership;
}

}  // namespace emblem
