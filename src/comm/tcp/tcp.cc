#include "comm/tcp/tcp.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/tcp/join.h"
#include "comm/tcp/pending_connections.h"
#include "comm/tcp/secret.h"
#include "comm/tcp/socket.h"
#include "comm/watch.h"
#include "comm/watched.h"
#include "core/system/interrupt.h"
#include "core/system/tcp_connect.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kAcceptTick = std::chrono::milliseconds(200);  // between looks at Ctrl-C

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
    poll(waiting, 2, poll_timeout(std::min(deadline, Clock::now() + kAcceptTick)));
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

// Connections by rank; none to itself. Each rank connects to the lower ones and accepts the
// higher ones; connections that do not belong to the job are dropped. Throws RankError when a
// rank fails meanwhile, kUnavailable after `seconds`.
std::vector<FileDescriptor> connect_mesh(Membership& membership, const Watch& watch,
                                         double seconds) {
  const Deadline deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double>(seconds));
  const size_t own = static_cast<size_t>(membership.rank), size = membership.hosts.size();
  std::vector<FileDescriptor> data;
  for (size_t rank = 0; rank < size; ++rank)
    data.push_back(rank < own ? connect_to(membership, rank, watch, deadline) : FileDescriptor(-1));

  PendingConnections connections(std::move(membership.data_listener), membership.secret);
  size_t missing = size - own - 1;
  while (missing > 0) {
    std::vector<pollfd> waiting = {{watch.failure_fd(), POLLIN, 0}};
    connections.add_to(waiting);
    poll(waiting.data(), waiting.size(),
         poll_timeout(std::min(deadline, Clock::now() + kAcceptTick)));
    throw_if_over(watch);
    for (PendingConnections::Arrived& arrived : connections.collect()) {
      try {
        const DataHello hello = decode_data_hello(arrived.first);
        const auto rank = static_cast<size_t>(hello.rank);
        if (hello.job != membership.roster.job || rank <= own || rank >= size ||
            data[rank].get() >= 0)
          throw Error(ErrorCode::kCorruption, "not a rank of this job");
        data[rank] = std::move(arrived.connection);
        --missing;
      } catch (const Error& error) {
        connections.report(arrived.connection.get(), error.what());
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

using Clock = std::chrono::steady_clock;

constexpr char kClosed[] = "connection closed; it was killed, it crashed or it left";

// Goes before every piece, so that ranks that do not call the same collectives notice.
struct PieceHeader {
  uint64_t exchange = 0, bytes = 0;
};

// The bytes that go to one rank and come from it in one exchange.
struct Transfer {
  int rank = 0, socket = -1;
  Piece send, receive;
  PieceHeader send_header, receive_header;
  size_t sent = 0, received = 0;  // headers included; pieces without bytes have none

  size_t to_send() const { return send.bytes == 0 ? 0 : sizeof(PieceHeader) + send.bytes; }
  size_t to_receive() const { return receive.bytes == 0 ? 0 : sizeof(PieceHeader) + receive.bytes; }
  bool is_sent() const { return sent == to_send(); }
  bool is_received() const { return received == to_receive(); }
  bool is_done() const { return is_sent() && is_received(); }
};

// What is left of header and data after `done` bytes of both.
std::array<iovec, 2> rest_of(PieceHeader& header, const Piece& piece, size_t done) {
  const size_t of_header = std::min(done, sizeof(header)), of_data = done - of_header;
  return {{{reinterpret_cast<char*>(&header) + of_header, sizeof(header) - of_header},
           {static_cast<char*>(piece.data) + of_data, piece.bytes - of_data}}};
}

class TcpCommunicator : public WatchedCommunicator {
 public:
  TcpCommunicator(Membership membership, const TcpSettings& settings)
      : WatchedCommunicator(membership, settings.watch),
        limit_seconds_(settings.collective_seconds) {
    try {
      data_ = connect_mesh(membership, watch_, settings.join.join_seconds);
    } catch (const RankError&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) watch_.throw_failure(rank_, error.what());
      watch_.fail(rank_, error.what());
      throw;
    }
  }

  ~TcpCommunicator() override {
    try {
      leave();
    } catch (...) {
      log_caught("leaving the job");
    }
  }

  const char* transport() const override { return "tcp"; }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    copy_own(context, send, receive);
    std::vector<Transfer> transfers = start(send, receive);
    const auto started = Clock::now();
    const Deadline deadline = started + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(limit_seconds_));
    for (;;) {
      for (Transfer& transfer : transfers) advance(transfer);
      std::erase_if(transfers, [](const Transfer& transfer) { return transfer.is_done(); });
      if (transfers.empty()) break;
      wait_for_any(transfers, deadline);
    }
    ++exchanges_;
  }

 private:
  std::vector<Transfer> start(std::span<const Piece> send, std::span<const Piece> receive) const {
    std::vector<Transfer> transfers;
    for (int step = 1; step < size(); ++step) {
      // Every rank begins with another one.
      const int peer = (rank_ + step) % size();
      const auto index = static_cast<size_t>(peer);
      transfers.push_back({peer, data_[index].get(), send[index], receive[index],
                           PieceHeader{exchanges_, send[index].bytes}});
    }
    return transfers;
  }

  // Sends and receives what is possible without waiting.
  void advance(Transfer& transfer) {
    while (!transfer.is_sent()) {
      auto rest = rest_of(transfer.send_header, transfer.send, transfer.sent);
      msghdr message{};
      message.msg_iov = rest.data();
      message.msg_iovlen = rest.size();
      const ssize_t sent = sendmsg(transfer.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        transfer.sent += static_cast<size_t>(sent);
      else if (must_wait(transfer, sent))
        break;
    }
    while (!transfer.is_received()) {
      auto rest = rest_of(transfer.receive_header, transfer.receive, transfer.received);
      // The header first: it may not match the piece.
      iovec& target = rest[transfer.received < sizeof(PieceHeader) ? 0 : 1];
      const ssize_t got = recv(transfer.socket, target.iov_base, target.iov_len, MSG_DONTWAIT);
      if (got == 0) lose(transfer, kClosed);
      if (got > 0)
        transfer.received += static_cast<size_t>(got);
      else if (must_wait(transfer, got))
        break;
      if (transfer.received == sizeof(PieceHeader)) check_header(transfer);
    }
  }

  // Whether a call would have blocked; throws when the connection is lost.
  bool must_wait(const Transfer& transfer, ssize_t result) {
    if (result < 0 && errno == EAGAIN) return true;
    if (result < 0 && errno != EINTR)
      lose(transfer, errno == ECONNRESET || errno == EPIPE
                         ? kClosed
                         : cat("connection lost: ", std::strerror(errno)));
    return false;
  }

  [[noreturn]] void lose(const Transfer& transfer, const std::string& reason) {
    watch_.throw_lost(transfer.rank, reason);
  }

  void check_header(const Transfer& transfer) {
    const PieceHeader& got = transfer.receive_header;
    if (got.exchange == exchanges_ && got.bytes == transfer.receive.bytes) return;
    const std::string line =
        cat("rank ", transfer.rank, " sends ", got.bytes, " bytes in exchange ", got.exchange,
            ", rank ", rank_, " expects ", transfer.receive.bytes, " in exchange ", exchanges_,
            ": all ranks must call the same collectives with matching sizes");
    watch_.fail(rank_, line);
    throw Error(ErrorCode::kInternal, line);
  }

  void wait_for_any(const std::vector<Transfer>& transfers, Deadline deadline) {
    std::vector<pollfd> waiting = {{watch_.failure_fd(), POLLIN, 0}};
    for (const Transfer& transfer : transfers) {
      const int events = (transfer.is_sent() ? 0 : POLLOUT) | (transfer.is_received() ? 0 : POLLIN);
      waiting.push_back({transfer.socket, static_cast<short>(events), 0});
    }
    const auto second = Clock::now() + std::chrono::seconds(1);
    const int ready =
        poll(waiting.data(), waiting.size(), poll_timeout(std::min(deadline, second)));
    watch_.check();
    if (ready > 0) return;
    for (const Transfer& transfer : transfers)
      if (link_is_dead(transfer.socket))
        lose(transfer, "connection lost: its host does not answer");
    if (Clock::now() >= deadline) throw_timeout(transfers.front());
  }

  [[noreturn]] void throw_timeout(const Transfer& transfer) {
    watch_.throw_failure(
        transfer.rank, cat("timed out after ", limit_seconds_, " s in exchange ", exchanges_, ": ",
                           transfer.to_receive() - transfer.received, " bytes to receive, ",
                           transfer.to_send() - transfer.sent,
                           " to send; its process is alive but does not take part"));
  }

  const double limit_seconds_;
  std::vector<FileDescriptor> data_;
  uint64_t exchanges_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> connect_by_tcp(const TcpSettings& settings) {
  return std::make_unique<TcpCommunicator>(join_job(settings.join), settings);
}

}  // namespace emblem
