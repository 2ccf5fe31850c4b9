#include "plan/traffic.h"

#include <algorithm>
#include <numeric>

namespace emblem {

void Traffic::add_to_holders(double bytes, const std::vector<double>& shares) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto others = static_cast<double>(shares.size() - 1);
  for (size_t r = 0; r < shares.size(); ++r) {
    sent[r] += bytes * (all - shares[r]);
    received[r] += bytes * others * shares[r];
  }
}

void Traffic::add_from_holders(double bytes, const std::vector<double>& shares) {
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto others = static_cast<double>(shares.size() - 1);
  for (size_t r = 0; r < shares.size(); ++r) {
    received[r] += bytes * (all - shares[r]);
    sent[r] += bytes * others * shares[r];
  }
}

ExchangeTime measured_exchange(const ExchangeCosts& costs, int ranks) {
  return [costs, ranks](const Traffic& traffic) {
    double busiest = 0, received = 0;
    for (size_t r = 0; r < traffic.sent.size(); ++r) {
      busiest = std::max({busiest, traffic.sent[r], traffic.received[r]});
      received += traffic.received[r];
    }
    const double mean = received / ranks, least = busiest / ranks;
    const double evenness = busiest > least ? (mean - least) / (busiest - least) : 1.0;
    const double share = std::clamp(evenness, 0.0, 1.0);
    return share * costs.even.at(busiest) + (1 - share) * costs.one.at(busiest);
  };
}

}  // namespace emblem
