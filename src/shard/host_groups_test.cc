#include "shard/host_groups.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<RankHost> hosts(const std::vector<std::string>& names) { return rank_hosts(names); }

TEST(HostGroups, EveryRankRelaysForItsCounterparts) {
  const HostGroups groups(hosts({"a", "a", "b", "b", "c", "c"}), 3);
  EXPECT_THAT(groups.near(), ElementsAre(2, 3));
  EXPECT_EQ(groups.near_self(), 1);
  EXPECT_TRUE(groups.is_near(2));
  EXPECT_FALSE(groups.is_near(1));
  EXPECT_THAT(groups.fetched_by(0), ElementsAre(0, 4));
  EXPECT_THAT(groups.fetched_by(1), ElementsAre(1, 5));
  EXPECT_EQ(groups.relay(0, 3), 1);  // rank of host a, for rank 3
  EXPECT_EQ(groups.near_relay(4), 0u);
  EXPECT_EQ(groups.place_at_relay(4), 1u);
}

TEST(HostGroups, MayHaveDifferentNumbersOfRanks) {
  const std::vector<RankHost> three_and_one = hosts({"a", "b", "a", "a"});
  const HostGroups of_a(three_and_one, 2), of_b(three_and_one, 1);
  EXPECT_THAT(of_a.near(), ElementsAre(0, 2, 3));
  EXPECT_THAT(of_a.fetched_by(0), ElementsAre(1));
  EXPECT_THAT(of_a.fetched_by(1), IsEmpty());
  EXPECT_THAT(of_b.near(), ElementsAre(1));
  EXPECT_THAT(of_b.fetched_by(0), ElementsAre(0, 2, 3));
}

TEST(HostGroups, KnowWhereRanksMayShareRows) {
  EXPECT_FALSE(hosts_share_ranks(hosts({"a", "a"})));
  EXPECT_FALSE(hosts_share_ranks(hosts({"a", "b", "c"})));
  EXPECT_TRUE(hosts_share_ranks(hosts({"a", "a", "b"})));
  EXPECT_FALSE(hosts_have_many_ranks(hosts({"a", "a", "b"})));
  EXPECT_TRUE(hosts_have_many_ranks(hosts({"a", "b", "c", "b", "a"})));
}

}  // namespace
}  // namespace emblem
