#include "train/run/rank_positions.h"

#include <gmock/gmock.h>

#include "comm/ranks_test.h"
#include "train/run/world.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

DataPosition at(int64_t rows, std::vector<StreamPosition> stream) {
  return {.rows_in_epoch = rows, .stream = std::move(stream)};
}

TEST(RankPositions, AreGatheredByShardOnRankZero) {
  run_thread_ranks(
      2,
      [](Communicator& ranks) {
        const World world{.ranks = &ranks, .shards = 3};
        std::vector<DataPosition> own;
        for (int64_t s = world.first_shard(); s < world.last_shard(); ++s)
          own.push_back({.epoch = s, .piece = 2, .row = 3, .emitted = 4, .rows_in_epoch = 5});
        if (ranks.rank() == 1) own.back().stream = {{7, 8, 9}, {10, 11, 12}};
        const std::vector<DataPosition> all = gather_positions(world, own, 0).shards;
        if (ranks.rank() == 1) {
          EXPECT_THAT(all, IsEmpty());
          return;
        }
        ASSERT_EQ(all.size(), 3u);
        EXPECT_EQ(all[0], own[0]);
        EXPECT_EQ(all[1].epoch, 1);
        EXPECT_EQ(all[2].emitted, 4);
        EXPECT_THAT(all[2].stream,
                    ElementsAre(StreamPosition{7, 8, 9}, StreamPosition{10, 11, 12}));
      },
      kTestSeconds);
}

TEST(RankPositions, OfStreamsAreJoinedAndDividedAgain) {
  const std::vector<DataPosition> shards = {at(5, {{1, 10, 0}}), at(7, {{0, 20, 3}, {2, 0, 0}}),
                                            at(0, {})};
  DataPosition joined;
  join_streams(shards, joined);
  EXPECT_EQ(joined, at(12, {{0, 20, 3}, {1, 10, 0}, {2, 0, 0}}));
  const std::vector<DataPosition> two = divide_stream(joined, shards, 2);
  EXPECT_THAT(two, ElementsAre(joined, at(0, joined.stream)));
  const std::vector<DataPosition> three = divide_stream(joined, shards, 3);
  EXPECT_THAT(three, ElementsAre(at(5, joined.stream), at(7, joined.stream), at(0, joined.stream)));
}

TEST(RankPositions, OfFilesStayAsTheyAre) {
  DataPosition position{.epoch = 3};
  join_streams({{.rows_in_epoch = 4}, {.rows_in_epoch = 5}}, position);
  EXPECT_EQ(position, DataPosition{.epoch = 3});
}

TEST(WorldTest, RanksTakeTurnsWithTheirShards) {
  run_thread_ranks(
      2,
      [](Communicator& ranks) {
        const World world{.ranks = &ranks, .shards = 5};  // rank 0: 0, 1; rank 1: 2, 3, 4
        std::vector<int64_t> turns;
        for (int64_t shard = 0; shard < 5; ++shard) turns.push_back(world.turn_of(shard));
        EXPECT_THAT(turns, ElementsAre(0, 2, 1, 3, 4));
      },
      kTestSeconds);
}

}  // namespace
}  // namespace emblem
