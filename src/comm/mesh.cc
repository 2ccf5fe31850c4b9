#include "comm/mesh.h"

#include <algorithm>
#include <thread>

#include "comm/secret.h"
#include "comm/socket.h"
#include "comm/visitors.h"
#include "core/interrupt.h"
#include "core/tcp_connect.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kTick = std::chrono::milliseconds(200);  // between looks at Ctrl-C

void throw_if_over(const Watch& watch) {
  watch.check();
  if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted while ranks connected");
}

void require_sent(const std::string& problem) {
  if (!problem.empty()) throw Error(ErrorCode::kUnavailable, problem);
}

// The other rank answers when it has connected to those below it.
void prove_secret(int connection, const ConnectingProof& proof, const Watch& watch,
                  Deadline deadline) {
  MessageReader reader(MessageReader::Start::kMessage);
  while (Clock::now() < deadline) {
    const ReceivedMessage received = receive_message(connection, reader);
    if (received.message)
      return require_sent(send_all(connection, proof.answer(*received.message), deadline));
    require_sent(received.end);
    pollfd waiting[] = {{connection, POLLIN, 0}, {watch.failure_fd(), POLLIN, 0}};
    poll(waiting, 2, poll_timeout(std::min(deadline, Clock::now() + kTick)));
    throw_if_over(watch);
  }
  throw Error(ErrorCode::kUnavailable, "it does not answer");
}

FileDescriptor try_to_connect(const Membership& membership, const RosterEntry& to,
                              const Watch& watch, Deadline deadline) {
  const Deadline soon = std::min(deadline, Clock::now() + std::chrono::seconds(5));
  FileDescriptor connection(connect_first(HostResolver().resolve(to.ip, to.data_port, soon), soon));
  tune_connection(connection.get());
  const ConnectingProof proof(membership.secret,
                              encode(DataHello{membership.roster.job, membership.rank}));
  require_sent(send_all(connection.get(), proof.opening(), soon));
  if (proof.is_needed()) prove_secret(connection.get(), proof, watch, deadline);
  return connection;
}

// Tries again: routes may still be learnt.
FileDescriptor connect_to(const Membership& membership, size_t rank, const Watch& watch,
                          Deadline deadline) {
  const RosterEntry& entry = membership.roster.ranks[rank];
  for (auto pause = std::chrono::milliseconds(10);;
       pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
    throw_if_over(watch);
    try {
      return try_to_connect(membership, entry, watch, deadline);
    } catch (const RankError&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      if (Clock::now() + pause >= deadline)
        throw Error(ErrorCode::kUnavailable,
                    cat("cannot connect to ", name_of_rank(static_cast<int>(rank), entry.host),
                        " at ", entry.ip, ":", entry.data_port, ": ", error.what(),
                        "; ranks need open TCP ports between all hosts"));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

std::vector<FileDescriptor> connect_mesh(Membership& membership, const Watch& watch,
                                         double seconds) {
  const Deadline deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double>(seconds));
  const size_t own = static_cast<size_t>(membership.rank), size = membership.hosts.size();
  std::vector<FileDescriptor> data;
  for (size_t rank = 0; rank < size; ++rank)
    data.push_back(rank < own ? connect_to(membership, rank, watch, deadline) : FileDescriptor(-1));

  Visitors visitors(std::move(membership.data_listener), membership.secret);
  size_t missing = size - own - 1;
  while (missing > 0) {
    std::vector<pollfd> waiting = {{watch.failure_fd(), POLLIN, 0}};
    visitors.add_to(waiting);
    poll(waiting.data(), waiting.size(), poll_timeout(std::min(deadline, Clock::now() + kTick)));
    throw_if_over(watch);
    for (Visitors::Arrived& arrived : visitors.collect()) {
      try {
        const DataHello hello = decode_data_hello(arrived.first);
        const auto rank = static_cast<size_t>(hello.rank);
        if (hello.job != membership.roster.job || rank <= own || rank >= size ||
            data[rank].get() >= 0)
          throw Error(ErrorCode::kCorruption, "not a rank of this job");
        data[rank] = std::move(arrived.connection);
        --missing;
      } catch (const Error& error) {
        visitors.report(arrived.connection.get(), error.what());
      }
    }
    if (missing > 0 && Clock::now() >= deadline) {
      const auto first = std::find_if(data.begin() + static_cast<std::ptrdiff_t>(own) + 1,
                                      data.end(), [](const auto& fd) { return fd.get() < 0; });
      const auto rank = static_cast<size_t>(first - data.begin());
      throw Error(ErrorCode::kUnavailable,
                  cat("no connection from ",
                      name_of_rank(static_cast<int>(rank), membership.hosts[rank].name), " within ",
                      seconds, " s; ranks need open TCP ports between all hosts"));
    }
  }
  return data;
}

}  // namespace emblem
