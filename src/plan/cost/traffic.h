// plan/cost/traffic.h - how long ranks take to exchange given numbers of bytes.
#pragma once

#include <functional>
#include <vector>

#include "plan/probe/machine_profile.h"
#include "shard/host_groups.h"

namespace emblem {

// Keys and gradients go to the ranks that hold rows; rows go to those that ask.
enum class Toward { kHolders, kAskers };

// Bytes by rank, to and from others: what a rank asks of itself is not sent.
struct Traffic {
  // `hosts` outlives it.
  explicit Traffic(const HostGroups& hosts);

  struct Bytes {
    std::vector<double> sent, received;
    double busiest() const;
  };
  const HostGroups* hosts;
  Bytes inside, between;      // bytes inside hosts and between them
  bool stays_inside = false;  // nothing is sent between hosts

  size_t ranks() const { return inside.sent.size(); }
  double sent(size_t rank) const { return inside.sent[rank] + between.sent[rank]; }
  double received(size_t rank) const { return inside.received[rank] + between.received[rank]; }

  // The share shares[r] of `bytes` of every rank is for, or from, rank r.
  void add(Toward toward, double bytes, const std::vector<double>& shares);
  // The same where relays ask ranks of other hosts: of the bytes of all ranks of a host, the part
  // merged[host] is left.
  void add_merged(Toward toward, double bytes, const std::vector<double>& shares,
                  const std::vector<double>& merged);
  // The same between ranks and the relays of their host, for ranks of other hosts.
  void add_relayed(Toward toward, double bytes, const std::vector<double>& shares);
};

// Seconds of one exchange.
using ExchangeTime = std::function<double(const Traffic&)>;

// As probed. Traffic between the two measured patterns, all ranks alike and one rank alone, is
// between their times.
ExchangeTime measured_exchange(const ExchangeCosts& costs);

}  // namespace emblem
