// plan/traffic.h - how long ranks take to exchange given numbers of bytes.
#pragma once

#include <functional>
#include <vector>

#include "plan/machine_profile.h"

namespace emblem {

// Bytes by rank, to and from others: what a rank asks of itself is not sent.
struct Traffic {
  explicit Traffic(int ranks) : sent(ranks), received(ranks) {}

  std::vector<double> sent, received;

  // Of `bytes` from every rank, the share shares[r] goes to rank r.
  void add_to_holders(double bytes, const std::vector<double>& shares);
  // The answers.
  void add_from_holders(double bytes, const std::vector<double>& shares);
};

// Seconds of one exchange.
using ExchangeTime = std::function<double(const Traffic&)>;

// As probed. Traffic between the two measured patterns, all ranks alike and one rank alone, is
// between their times.
ExchangeTime measured_exchange(const ExchangeCosts& costs, int ranks);

}  // namespace emblem
