// The time of exchanges by size and pattern.
#include "core/memory/buffer.h"
#include "plan/probe/probe.h"
#include "shard/host_groups.h"

namespace emblem {
namespace {

constexpr int64_t kSizes[] = {64, 4096, 65536, 524288, 2 << 20, 8 << 20, 32 << 20};
constexpr double kLongest = 0.2;  // seconds of a call after which larger ones are not measured

// `bytes(from, to)` of each pair of ranks.
template <class Bytes>
double time_exchange(RankTimer& timer, Communicator& exchange, int64_t most, Bytes&& bytes) {
  const Context& context = timer.context();
  const int self = exchange.rank();
  Buffer<char> out = Buffer<char>::zeros(context, most), in = Buffer<char>::zeros(context, most);
  std::vector<Piece> send, receive;
  size_t sent = 0, received = 0;
  for (int r = 0; r < exchange.size(); ++r) {
    send.push_back({out.data() + sent, static_cast<size_t>(bytes(self, r))});
    receive.push_back({in.data() + received, static_cast<size_t>(bytes(r, self))});
    sent += send.back().bytes;
    received += receive.back().bytes;
  }
  return timer.all([&](int64_t) { exchange.exchange(context, send, receive); });
}

// Stops at sizes that take too long.
template <class Time>
Curve curve_of(Time&& time) {
  std::vector<CurvePoint> points;
  for (const int64_t size : kSizes) {
    points.push_back({static_cast<double>(size), time(size)});
    if (points.back().seconds > kLongest) break;
  }
  return Curve(std::move(points));
}

}  // namespace

ExchangeCosts probe_exchange(RankTimer& timer, Communicator& exchange) {
  const int64_t others = std::max(1, exchange.size() - 1);
  const auto piece = [&](int64_t size) { return (size + others - 1) / others; };
  ExchangeCosts costs;
  if (exchange.size() == 1) {
    const double nothing = time_exchange(timer, exchange, 1, [](int, int) { return 0; });
    costs.even = costs.one = Curve({{0, nothing}});
    return costs;
  }
  costs.even = curve_of([&](int64_t size) {
    return time_exchange(timer, exchange, piece(size) * others,
                         [&](int from, int to) { return from == to ? 0 : piece(size); });
  });
  costs.one = curve_of([&](int64_t size) {
    return time_exchange(timer, exchange, piece(size) * others,
                         [&](int from, int to) { return from == 0 && to != 0 ? piece(size) : 0; });
  });
  if (hosts_share_ranks(exchange.hosts())) {
    const HostGroups hosts(exchange.hosts(), exchange.rank());
    const auto within = [&](int64_t size, int from, int to) -> int64_t {
      if (from == to || hosts.host_of(from) != hosts.host_of(to)) return 0;
      const int64_t near = std::ssize(hosts.ranks_of_host(hosts.host_of(from))) - 1;
      return (size + near - 1) / near;
    };
    costs.inside = curve_of([&](int64_t size) {
      return time_exchange(timer, exchange, size + others,
                           [&](int from, int to) { return within(size, from, to); });
    });
  }
  return costs;
}

}  // namespace emblem
