#include "plan/cost.h"

#include <gmock/gmock.h>

#include "emblem/error.h"
#include "plan/plain_profile_test.h"

namespace emblem {
namespace {

ShardPlan plan_of(std::vector<TableShards> tables, int ranks) {
  return {.ranks = ranks, .tables = std::move(tables)};
}

TEST(TimeOfRanks, IsTheSlowestRankWhereNoneDisturbsAnother) {
  EXPECT_DOUBLE_EQ(time_of_ranks({1, 4, 2}, {1, 4, 2}, {0, 0, 0}), 4.0);
}

TEST(TimeOfRanks, IsTheSumWhereAllShareOneDevice) {
  // Three ranks that take 3 s each together take 1 s alone.
  EXPECT_DOUBLE_EQ(time_of_ranks({3, 3, 3}, {1, 1, 1}, {0, 0, 0}), 3.0);
  // One with all the work is alone.
  EXPECT_DOUBLE_EQ(time_of_ranks({9, 0, 0}, {3, 0, 0}, {0, 0, 0}), 3.0);
}

TEST(TimeOfRanks, OtherHostsDoNotMatter) {
  EXPECT_DOUBLE_EQ(time_of_ranks({2, 2, 5}, {1, 1, 2.5}, {0, 0, 1}), 5.0);
}

TEST(Traffic, GoesToHoldersAndBack) {
  Traffic keys(2), rows(2);
  keys.add_to_holders(100, {0.25, 0.75});
  rows.add_from_holders(100, {0.25, 0.75});
  EXPECT_EQ(keys.sent, (std::vector<double>{75, 25}));
  EXPECT_EQ(keys.received, (std::vector<double>{25, 75}));
  EXPECT_EQ(rows.sent, keys.received);
  EXPECT_EQ(rows.received, keys.sent);
}

TEST(MeasuredExchange, IsBetweenEvenAndOneSidedTraffic) {
  const ExchangeCosts costs = {Curve({{0, 0}, {100, 4}}), Curve({{0, 0}, {100, 1}})};
  const ExchangeTime seconds = measured_exchange(costs, 2);
  Traffic even(2), one(2);
  even.sent = even.received = {100, 100};
  one.sent = {100, 0};
  one.received = {0, 100};
  EXPECT_DOUBLE_EQ(seconds(even), 4.0);
  EXPECT_DOUBLE_EQ(seconds(one), 1.0);
}

TEST(Cost, RowsOverAllRanksAreSharedWorkAndBytes) {
  const CostModel model(test_profile(2), test_workload({4096}));
  const Prediction found = model.predict(plan_of({over_all_ranks("t0", 2)}, 2));
  // Every rank asks for 1000 keys, half of them of each: 1000 requests a rank.
  EXPECT_NEAR(found.seconds.gather, 1e-3, 1e-9);
  EXPECT_NEAR(found.seconds.update, 2e-3, 1e-9);
  // Sizes, then 500 keys of 8 bytes.
  EXPECT_NEAR(found.seconds.keys, 2e-4 + 4e-9 + 4e-6, 1e-9);
  EXPECT_NEAR(found.seconds.rows, 1e-4 + 500 * 64e-9, 1e-9);
  EXPECT_NEAR(found.seconds.gradients, 1e-4 + 500 * 64e-9, 1e-9);
  EXPECT_NEAR(found.seconds.dense, 10e-3, 1e-9);
  EXPECT_NEAR(found.seconds.total(),
              found.seconds.requests + found.seconds.keys + found.seconds.gather +
                  found.seconds.rows + found.seconds.dense + found.seconds.dense_sum +
                  found.seconds.sums + found.seconds.gradients + found.seconds.update,
              1e-12);
  EXPECT_DOUBLE_EQ(found.bytes[0].tables, 2048 * 64);
  EXPECT_DOUBLE_EQ(found.bytes[1].tables, 2048 * 64);
}

TEST(Cost, RanksHaveWholeBinsOfATableThatEvicts) {
  Workload workload = test_workload({64000});
  workload.tables[0].settings.kind = TableKind::kDynamic;
  workload.tables[0].settings.eviction = Eviction::kLru;
  MachineProfile profile = test_profile(3);
  profile.tables[0].table.is_dynamic = true;
  const CostModel model(profile, workload);
  const Prediction found = model.predict(plan_of({over_all_ranks("t0", 3)}, 3));
  EXPECT_DOUBLE_EQ(found.bytes[0].tables, 21000 * 64);
  EXPECT_DOUBLE_EQ(found.bytes[2].tables, 22000 * 64);
  const ShardPlan cut = parse_plan("ranks 3\nt0 rows 0-99 100-4095 none", "p");
  EXPECT_THAT([&] { model.predict(cut); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("evicts keys in bins of 64 parts")));
}

TEST(Cost, ATableOnOneRankIsAllItsWork) {
  const CostModel model(test_profile(2), test_workload({4096}));
  const Prediction found = model.predict(plan_of({on_rank("t0", 1, 2)}, 2));
  EXPECT_NEAR(found.seconds.gather, 2e-3, 1e-9);
  EXPECT_EQ(found.work[0], 0.0);
  EXPECT_NEAR(found.seconds.rows, 1e-4 + 1000 * 64e-9, 1e-9);  // rank 1 sends all of rank 0's
  EXPECT_DOUBLE_EQ(found.bytes[0].tables, 0);
  EXPECT_DOUBLE_EQ(found.bytes[1].tables, 4096 * 64);
}

TEST(Cost, ReplicatedTablesSendNoRowsButAllGradients) {
  const CostModel model(test_profile(4), test_workload({4096}));
  const Prediction found = model.predict(plan_of({on_every_rank("t0")}, 4));
  EXPECT_NEAR(found.seconds.rows, 1e-4, 1e-9);
  EXPECT_NEAR(found.seconds.gradients, 1e-4 + 3 * 1000 * 64e-9, 1e-9);
  EXPECT_NEAR(found.seconds.gather, 1e-3, 1e-9);      // of its own keys
  EXPECT_NEAR(found.seconds.update, 4 * 2e-3, 1e-9);  // of the keys of all ranks
  for (const RankBytes& bytes : found.bytes) EXPECT_DOUBLE_EQ(bytes.tables, 4096 * 64);
}

TEST(Cost, ShardsOfARankAddUp) {
  Workload workload = test_workload({4096});
  const double one = CostModel(test_profile(2), workload)
                         .predict(plan_of({over_all_ranks("t0", 2)}, 2))
                         .seconds.dense;
  workload.shards = 3;
  const Prediction three =
      CostModel(test_profile(2), workload).predict(plan_of({over_all_ranks("t0", 2)}, 2));
  EXPECT_DOUBLE_EQ(three.seconds.dense, 3 * one);
  EXPECT_NEAR(three.seconds.gather, 3e-3, 1e-9);
}

}  // namespace
}  // namespace emblem
