#include "shard/host_groups.h"

#include <map>

namespace emblem {
namespace {

std::map<std::string, int> ranks_by_host(const std::vector<RankHost>& hosts) {
  std::map<std::string, int> counts;
  for (const RankHost& host : hosts) ++counts[host.name];
  return counts;
}

int hosts_with_several_ranks(const std::vector<RankHost>& hosts) {
  int count = 0;
  for (const auto& [host, ranks] : ranks_by_host(hosts)) count += ranks > 1;
  return count;
}

}  // namespace

HostGroups::HostGroups(const std::vector<RankHost>& hosts, int self) : self_(self) {
  std::map<std::string, size_t> numbers;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [found, is_new] = numbers.try_emplace(hosts[rank].name, ranks_of_host_.size());
    if (is_new) ranks_of_host_.emplace_back();
    std::vector<int>& ranks = ranks_of_host_[found->second];
    host_of_rank_.push_back(found->second);
    place_.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(rank));
  }
  fetched_by_.resize(near().size());
  place_at_relay_.resize(hosts.size());
  for (int owner = 0; owner < static_cast<int>(hosts.size()); ++owner) {
    if (is_near(owner)) continue;
    std::vector<int>& fetched = fetched_by_[near_relay(owner)];
    place_at_relay_[static_cast<size_t>(owner)] = fetched.size();
    fetched.push_back(owner);
  }
}

bool hosts_share_ranks(const std::vector<RankHost>& hosts) {
  return ranks_by_host(hosts).size() > 1 && hosts_with_several_ranks(hosts) > 0;
}

bool hosts_have_many_ranks(const std::vector<RankHost>& hosts) {
  return hosts_with_several_ranks(hosts) > 1;
}

}  // namespace emblem
