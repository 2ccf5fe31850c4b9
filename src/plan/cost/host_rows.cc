// What it costs that rows of other hosts come to a host once.
#include <algorithm>

#include "plan/cost/cost.h"

namespace emblem {
namespace {

// What a relay needs for a key that it fetches: where it is in the lists of its host, its row,
// twice.
constexpr double kBytesOfRelayedKey = 24, kRowsOfRelayedKey = 2;

}  // namespace

double CostModel::left_on_host(const WorkloadTable& table, size_t host) const {
  const auto ranks = static_cast<double>(hosts_.ranks_of_host(host).size());
  const auto rows = static_cast<double>(workload_.rows);
  const auto shards = static_cast<double>(workload_.shards);
  const double asked = ranks * shards * table.keys.at(rows);
  if (workload_.host_dedup == HostDedup::kNone || asked <= 0) return 1.0;
  return std::min(1.0, table.keys.at(rows * shards * ranks) / asked);
}

void CostModel::share_rows_of_hosts(const WorkloadTable& table, TableLoad& load) const {
  load.requesters.assign(static_cast<size_t>(ranks_), static_cast<double>(ranks_));
  const bool are_shared = workload_.host_dedup != HostDedup::kNone && hosts_.hosts() > 1 &&
                          !load.replicated && !load.pooled_at_owner;
  if (!are_shared) return;
  for (size_t host = 0; host < hosts_.hosts(); ++host)
    load.merged.push_back(left_on_host(table, host));
  if (workload_.host_dedup != HostDedup::kRowsAndSums) return;
  for (int r = 0; r < ranks_; ++r) {
    double& requesters = load.requesters[static_cast<size_t>(r)] = 0;
    for (size_t host = 0; host < hosts_.hosts(); ++host)
      requesters += static_cast<double>(hosts_.ranks_of_host(host).size()) *
                    (host == hosts_.host_of(r) ? 1.0 : load.merged[host]);
  }
}

// A relay finds the distinct ones of the keys of its host, copies their rows, and may sum their
// gradients. Where it does not, holders find the distinct ones, too.
void CostModel::add_relays(double request_seconds, double sum_seconds, TableLoad& load) const {
  if (load.merged.empty()) return;
  const bool sums = workload_.host_dedup == HostDedup::kRowsAndSums;
  for (int owner = 0; owner < ranks_; ++owner) {
    const auto o = static_cast<size_t>(owner);
    for (size_t host = 0; host < hosts_.hosts(); ++host) {
      if (host == hosts_.host_of(owner)) continue;
      const auto relay = static_cast<size_t>(hosts_.relay(host, owner));
      const double keys =
          static_cast<double>(hosts_.ranks_of_host(host).size()) * load.keys * load.shares[o];
      load.requests[relay] += keys * request_seconds;
      (sums ? load.sums[relay] : load.requests[o]) += keys * (sums ? sum_seconds : request_seconds);
      load.bytes[relay].exchange +=
          keys * (kBytesOfRelayedKey + kRowsOfRelayedKey * load.row_bytes * load.columns[o]);
    }
  }
}

}  // namespace emblem
