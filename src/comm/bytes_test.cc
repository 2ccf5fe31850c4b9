#include "comm/bytes.h"

#include "comm/ranks_test.h"

namespace emblem {
namespace {

class RankBytesTest : public testing::TestWithParam<TestRanks> {};
INSTANTIATE_TEST_SUITE_P(Transports, RankBytesTest, testing::ValuesIn(all_test_ranks()), test_name);

// A text of another size on every rank and in every round; some are empty, some larger than a
// packet.
std::string text_of_rank(int rank, int round) {
  const int size = (rank * 7 + round) % 3 == 0 ? 0 : rank * 50'000 + round * 1'000 + 1;
  return std::string(static_cast<size_t>(size), static_cast<char>('a' + rank + round));
}

TEST_P(RankBytesTest, AreGatheredOnRankZeroByRank) {
  GetParam().run([](Communicator& ranks) {
    for (int round = 0; round < 5; ++round) {
      const std::vector<std::string> all = gather_bytes(ranks, text_of_rank(ranks.rank(), round));
      std::vector<std::string> expected;
      for (int r = 0; ranks.rank() == 0 && r < ranks.size(); ++r)
        expected.push_back(text_of_rank(r, round));
      ASSERT_EQ(all, expected) << round;
    }
  });
}

TEST_P(RankBytesTest, OfOneRankReachAllOthers) {
  GetParam().run([](Communicator& ranks) {
    for (int round = 0; round < 5; ++round) {
      for (int from = 0; from < ranks.size(); ++from) {
        std::string bytes = text_of_rank(ranks.rank(), round);
        broadcast_bytes(ranks, bytes, from);
        ASSERT_EQ(bytes, text_of_rank(from, round)) << round << " from " << from;
      }
    }
  });
}

}  // namespace
}  // namespace emblem
