#include "shard/table_slices.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

const TableSettings kTable{.name = "a", .dim = 5, .capacity = 10};

TEST(TableSlices, ATableThatIsNotCutIsOne) {
  const std::vector<TableSlice> slices = slices_of({kTable, over_all_ranks("a", 2), nullptr}, 2, 1);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].settings.dim, 5);
  EXPECT_EQ(slices[0].shards, over_all_ranks("a", 2));
  EXPECT_TRUE(slices[0].is_local && slices[0].is_first);
  EXPECT_EQ(slices[0].pooled_by, -1);
}

TEST(TableSlices, SlicesOfColumnsAreWholeTablesOfTheirRanks) {
  TableShards shards = by_columns("a", {2, 0}, 3);
  shards.pooled_at_owner = true;
  const std::vector<TableSlice> slices = slices_of({kTable, shards, nullptr}, 3, 0);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].settings.dim, 2);
  EXPECT_EQ(slices[1].settings.dim, 3);
  EXPECT_EQ(slices[0].shards, on_rank("a", 2, 3));
  EXPECT_EQ(slices[1].shards, on_rank("a", 0, 3));
  EXPECT_EQ(slices[0].pooled_by, 2);
  EXPECT_EQ(slices[1].pooled_by, 0);
  EXPECT_TRUE(slices[0].is_first && !slices[1].is_first);
}

TEST(TableSlices, OneOfThemIsWhatARankHasOfTheTable) {
  const auto local = [](int rank) {
    std::vector<bool> are_local;
    for (const TableSlice& slice :
         slices_of({kTable, by_columns("a", {2, 0}, 3), nullptr}, 3, rank))
      are_local.push_back(slice.is_local);
    return are_local;
  };
  EXPECT_THAT(local(0), testing::ElementsAre(false, true));
  EXPECT_THAT(local(1), testing::ElementsAre(true, false));  // it has no rows
  EXPECT_THAT(local(2), testing::ElementsAre(true, false));
}

TEST(TableSlices, AnOwnerThatPoolsHasAllRows) {
  TableShards shards = over_all_ranks("a", 2);
  shards.pooled_at_owner = true;
  EXPECT_THAT(
      [&] {
        slices_of({kTable, shards, nullptr}, 2, 0);
      },
      testing::ThrowsMessage<Error>(
          "table a cannot be pooled at its owner: no rank has all of its rows"));
}

}  // namespace
}  // namespace emblem
