// shard/host_groups.h - which ranks share a host, and which of them, the relay, fetches the rows of
// a rank of another host for all.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace emblem {

// The same on all ranks but for what concerns this one.
class HostGroups {
 public:
  HostGroups(const std::vector<RankHost>& hosts, int self);

  // The ranks of this rank's host, in order, and which of them this rank is.
  const std::vector<int>& near() const { return ranks_of_host_[host_of(self_)]; }
  int near_self() const { return place_[static_cast<size_t>(self_)]; }
  bool is_near(int rank) const { return host_of(rank) == host_of(self_); }
  size_t hosts() const { return ranks_of_host_.size(); }
  // The host of a rank: a number of its host, in the order of first ranks.
  size_t host_of(int rank) const { return host_of_rank_[static_cast<size_t>(rank)]; }
  const std::vector<int>& ranks_of_host(size_t host) const { return ranks_of_host_[host]; }

  // The rank of a host that fetches rows of `owner`, which is on another host: the i-th rank of
  // the one serves the i-th of the other, in turn where they have different numbers.
  int relay(size_t host, int owner) const {
    const std::vector<int>& ranks = ranks_of_host_[host];
    return ranks[static_cast<size_t>(place_[static_cast<size_t>(owner)]) % ranks.size()];
  }
  // The ranks of other hosts whose rows near()[n] fetches, in order.
  const std::vector<int>& fetched_by(size_t n) const { return fetched_by_[n]; }
  // The place of a rank of another host in fetched_by(n) of its relay n.
  size_t place_at_relay(int owner) const { return place_at_relay_[static_cast<size_t>(owner)]; }
  // The same relay as a place in near().
  size_t near_relay(int owner) const {
    return static_cast<size_t>(place_[static_cast<size_t>(relay(host_of(self_), owner))]);
  }

 private:
  int self_;
  std::vector<size_t> host_of_rank_;
  std::vector<std::vector<int>> ranks_of_host_;
  std::vector<int> place_;  // place of a rank among those of its host
  std::vector<std::vector<int>> fetched_by_;
  std::vector<size_t> place_at_relay_;
};

// Whether ranks of one host may need the same rows of another: there are several hosts, and one has
// several ranks.
bool hosts_share_ranks(const std::vector<RankHost>& hosts);
// Whether that is worth a second exchange: several hosts have several ranks each.
bool hosts_have_many_ranks(const std::vector<RankHost>& hosts);

}  // namespace emblem
