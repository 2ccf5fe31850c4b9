#include "comm/rank_group.h"

#include <gmock/gmock.h>

#include "comm/counted_ranks.h"
#include "comm/ranks_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;

class RankGroups : public testing::TestWithParam<TestRanks> {};

// Even ranks are one group, odd ones the other.
TEST_P(RankGroups, ExchangeWithinThemselvesAtTheSameTime) {
  GetParam().run([](Communicator& ranks) {
    const int parity = ranks.rank() % 2;
    std::vector<int> members;
    for (int r = parity; r < ranks.size(); r += 2) members.push_back(r);
    RankGroup group(ranks, members);
    EXPECT_EQ(group.rank(), ranks.rank() / 2);
    EXPECT_EQ(group.size(), static_cast<int>(members.size()));
    EXPECT_EQ(group.hosts()[static_cast<size_t>(group.rank())],
              ranks.hosts()[static_cast<size_t>(ranks.rank())]);
    for (int round = 0; round < 3; ++round) {
      int mine = ranks.rank() + 100 * round;
      std::vector<int> all(members.size());
      group.gather_all(Context{}, {&mine, sizeof(mine)}, {all.data(), all.size() * sizeof(int)});
      for (size_t m = 0; m < all.size(); ++m) EXPECT_EQ(all[m], members[m] + 100 * round);
    }
    group.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(, RankGroups,
                         testing::Values(TestRanks{"mpi", 0}, TestRanks{"threads", 1},
                                         TestRanks{"threads", 5}, TestRanks{"tcp", 4}),
                         test_name);

TEST(RankGroup, NeedsItsOwnRank) {
  const auto ranks = make_thread_ranks(2);
  try {
    RankGroup group(*ranks[0], {1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 0 is not in its group of 1 ranks");
  }
}

TEST(ThreadRanks, MayStandForHosts) {
  const auto ranks = make_thread_ranks(3, kTestSeconds, {"a", "b", "a"});
  EXPECT_THAT(ranks[0]->hosts(), ElementsAre(RankHost{"a", 0}, RankHost{"b", 0}, RankHost{"a", 1}));
}

TEST(CountedRanks, CountWhatLeavesARankAndItsHost) {
  const auto run = [](Communicator& ranks) {
    CountedRanks counted(ranks);
    std::vector<char> mine(10), all(30);
    counted.gather_all(Context{}, {mine.data(), 10}, {all.data(), 30});
    const CountedRanks::Bytes sent = counted.take_bytes();
    EXPECT_EQ(sent.inside, ranks.rank() == 1 ? 0 : 10);
    EXPECT_EQ(sent.between, ranks.rank() == 1 ? 20 : 10);
    EXPECT_EQ(counted.take_bytes().between, 0);
  };
  run_thread_ranks(3, run, kTestSeconds, {"a", "b", "a"});
}

}  // namespace
}  // namespace emblem
