#include "plan/cost/traffic.h"

#include <algorithm>
#include <numeric>

namespace emblem {
namespace {

// Shares of hosts from shares of ranks.
std::vector<double> by_host(const HostGroups& hosts, const std::vector<double>& shares) {
  std::vector<double> sums(hosts.hosts());
  for (size_t r = 0; r < shares.size(); ++r) sums[hosts.host_of(static_cast<int>(r))] += shares[r];
  return sums;
}

// What askers send and holders receive, or the other way round.
struct Sides {
  Sides(Toward toward, Traffic::Bytes& bytes)
      : askers(toward == Toward::kHolders ? bytes.sent : bytes.received),
        holders(toward == Toward::kHolders ? bytes.received : bytes.sent) {}
  std::vector<double>&askers, &holders;
};

// Calls body(relay, owner, ranks of the relay's host) for every host and rank of another one.
template <class Body>
void for_each_relay(const HostGroups& hosts, const std::vector<double>& shares, const Body& body) {
  for (size_t owner = 0; owner < shares.size(); ++owner) {
    if (shares[owner] == 0) continue;
    const int rank = static_cast<int>(owner);
    for (size_t host = 0; host < hosts.hosts(); ++host)
      if (host != hosts.host_of(rank))
        body(static_cast<size_t>(hosts.relay(host, rank)), owner, hosts.ranks_of_host(host));
  }
}

}  // namespace

Traffic::Traffic(const HostGroups& hosts) : hosts(&hosts) {
  size_t ranks = 0;
  for (size_t host = 0; host < hosts.hosts(); ++host) ranks += hosts.ranks_of_host(host).size();
  for (Bytes* bytes : {&inside, &between}) {
    bytes->sent.resize(ranks);
    bytes->received.resize(ranks);
  }
}

double Traffic::Bytes::busiest() const {
  return std::max(*std::max_element(sent.begin(), sent.end()),
                  *std::max_element(received.begin(), received.end()));
}

void Traffic::add(Toward toward, double bytes, const std::vector<double>& shares) {
  add_merged(toward, bytes, shares, {});
}

void Traffic::add_merged(Toward toward, double bytes, const std::vector<double>& shares,
                         const std::vector<double>& merged) {
  const Sides near(toward, inside), far(toward, between);
  const std::vector<double> of_host = by_host(*hosts, shares);
  const double all = std::accumulate(of_host.begin(), of_host.end(), 0.0);
  for (size_t r = 0; r < ranks(); ++r) {
    const size_t host = hosts->host_of(static_cast<int>(r));
    const auto neighbours = static_cast<double>(hosts->ranks_of_host(host).size());
    near.askers[r] += bytes * (of_host[host] - shares[r]);
    near.holders[r] += bytes * (neighbours - 1) * shares[r];
    if (!merged.empty()) continue;
    far.askers[r] += bytes * (all - of_host[host]);
    far.holders[r] += bytes * (static_cast<double>(ranks()) - neighbours) * shares[r];
  }
  if (merged.empty()) return;
  for_each_relay(*hosts, shares, [&](size_t relay, size_t owner, const std::vector<int>& ranks) {
    const double left = merged[hosts->host_of(static_cast<int>(relay))];
    const double of_ranks = bytes * static_cast<double>(ranks.size()) * shares[owner] * left;
    far.askers[relay] += of_ranks;
    far.holders[owner] += of_ranks;
  });
}

void Traffic::add_relayed(Toward toward, double bytes, const std::vector<double>& shares) {
  const Sides near(toward, inside);
  for_each_relay(*hosts, shares, [&](size_t relay, size_t owner, const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      if (static_cast<size_t>(rank) == relay) continue;
      near.askers[static_cast<size_t>(rank)] += bytes * shares[owner];
      near.holders[relay] += bytes * shares[owner];
    }
  });
}

ExchangeTime measured_exchange(const ExchangeCosts& costs) {
  const bool knows_inside = !costs.inside.points().empty();
  return [costs, knows_inside](const Traffic& traffic) {
    if (knows_inside && traffic.stays_inside) return costs.inside.at(traffic.inside.busiest());
    const auto ranks = static_cast<double>(traffic.ranks());
    double busiest = 0, received = 0;
    for (size_t r = 0; r < traffic.ranks(); ++r) {
      double sent_here = traffic.sent(r), received_here = traffic.received(r);
      if (knows_inside) {
        // As much between hosts as in an exchange of so much with all ranks.
        const size_t host = traffic.hosts->host_of(static_cast<int>(r));
        const auto near = static_cast<double>(traffic.hosts->ranks_of_host(host).size());
        sent_here = traffic.between.sent[r] * (ranks - 1) / (ranks - near);
        received_here = traffic.between.received[r] * (ranks - 1) / (ranks - near);
      }
      busiest = std::max({busiest, sent_here, received_here});
      received += received_here;
    }
    const double mean = received / ranks, least = busiest / ranks;
    const double evenness = busiest > least ? (mean - least) / (busiest - least) : 1.0;
    const double share = std::clamp(evenness, 0.0, 1.0);
    const double seconds = share * costs.even.at(busiest) + (1 - share) * costs.one.at(busiest);
    return knows_inside ? std::max(seconds, costs.inside.at(traffic.inside.busiest())) : seconds;
  };
}

}  // namespace emblem
