#include "comm/communicator.h"

#include <algorithm>
#include <map>

namespace emblem {
namespace {

// From this size on, and with more than two ranks, a broadcast sends every rank one slice, which
// the ranks then gather: its source sends 2 copies instead of one for every rank.
constexpr size_t kSlicedBroadcastBytes = size_t{64} << 10;

Piece slice_of(Piece whole, size_t slice_bytes, int index) {
  const size_t first = std::min(whole.bytes, slice_bytes * static_cast<size_t>(index));
  return {static_cast<char*>(whole.data) + first, std::min(slice_bytes, whole.bytes - first)};
}

}  // namespace

std::string name_of_rank(int rank, const std::string& host) {
  return cat("rank ", rank, " (host ", host, ")");
}

std::vector<RankHost> rank_hosts(std::span<const std::string> names) {
  std::map<std::string, int> ranks_of_host;
  std::vector<RankHost> hosts;
  for (const std::string& name : names) hosts.push_back({name, ranks_of_host[name]++});
  return hosts;
}

void Communicator::exchange(const Context& context, std::span<const Piece> send,
                            std::span<const Piece> receive) {
  const auto ranks = static_cast<size_t>(size());
  EMBLEM_REQUIRE(send.size() == ranks && receive.size() == ranks, "exchange of ", send.size(),
                 " sent and ", receive.size(), " received pieces between ", ranks,
                 " ranks: one piece of each kind for every rank is required");
  const auto own = static_cast<size_t>(rank());
  EMBLEM_REQUIRE(send[own].bytes == receive[own].bytes, "rank ", own, " sends itself ",
                 send[own].bytes, " bytes and expects ", receive[own].bytes);
  do_exchange(context, send, receive);
}

void Communicator::gather_all(const Context& context, Piece mine, Piece all) {
  const auto ranks = static_cast<size_t>(size());
  EMBLEM_REQUIRE(all.bytes == mine.bytes * ranks, "gather_all of ", mine.bytes, " bytes from ",
                 ranks, " ranks into ", all.bytes, " bytes: ", mine.bytes * ranks, " are required");
  const std::vector<Piece> send(ranks, mine);
  std::vector<Piece> receive(ranks);
  for (int r = 0; r < size(); ++r) receive[static_cast<size_t>(r)] = slice_of(all, mine.bytes, r);
  do_exchange(context, send, receive);
}

void Communicator::broadcast(const Context& context, Piece piece, int from) {
  EMBLEM_REQUIRE(from >= 0 && from < size(), "broadcast from rank ", from,
                 ": there are ranks 0 to ", size() - 1);
  const auto ranks = static_cast<size_t>(size());
  std::vector<Piece> send(ranks), receive(ranks);
  const bool is_source = rank() == from;
  if (ranks <= 2 || piece.bytes < kSlicedBroadcastBytes) {
    if (is_source) {
      send.assign(ranks, piece);
      send[static_cast<size_t>(from)] = {};
    } else {
      receive[static_cast<size_t>(from)] = piece;
    }
    do_exchange(context, send, receive);
    return;
  }
  const size_t slice_bytes = (piece.bytes + ranks - 1) / ranks;
  const auto slice = [&](int r) { return slice_of(piece, slice_bytes, r); };
  if (is_source) {
    for (int r = 0; r < size(); ++r) send[static_cast<size_t>(r)] = slice(r);
    send[static_cast<size_t>(from)] = {};
  } else {
    receive[static_cast<size_t>(from)] = slice(rank());
  }
  do_exchange(context, send, receive);
  // The source has everything: it sends its own slice and receives none.
  send.assign(ranks, slice(rank()));
  send[static_cast<size_t>(rank())] = send[static_cast<size_t>(from)] = {};
  for (int r = 0; r < size(); ++r)
    receive[static_cast<size_t>(r)] = is_source || r == rank() ? Piece{} : slice(r);
  do_exchange(context, send, receive);
}

void Communicator::use_peer_memory(const Context&, std::span<const Piece>, const UsePeerMemory&) {
  throw Error(ErrorCode::kUnsupported,
              cat("ranks connected by ", transport(), " cannot use each other's memory"));
}

void Communicator::barrier() {
  const auto ranks = static_cast<size_t>(size());
  char mine = 0;
  std::vector<char> theirs(ranks);
  const std::vector<Piece> send(ranks, Piece{&mine, 1});
  std::vector<Piece> receive;
  for (char& one : theirs) receive.push_back({&one, 1});
  do_exchange(Context{}, send, receive);
}

}  // namespace emblem
