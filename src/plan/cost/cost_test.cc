#include "plan/cost/cost.h"

#include <gmock/gmock.h>

#include "emblem/error.h"
#include "plan/probe/links.h"
#include "plan/probe/plain_profile_test.h"

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
  const HostGroups hosts = even_hosts(1, 2);
  Traffic keys(hosts), rows(hosts);
  keys.add(Toward::kHolders, 100, {0.25, 0.75});
  rows.add(Toward::kAskers, 100, {0.25, 0.75});
  EXPECT_EQ(keys.inside.sent, (std::vector<double>{75, 25}));
  EXPECT_EQ(keys.inside.received, (std::vector<double>{25, 75}));
  EXPECT_EQ(rows.inside.sent, keys.inside.received);
  EXPECT_EQ(rows.inside.received, keys.inside.sent);
}

TEST(MeasuredExchange, IsBetweenEvenAndOneSidedTraffic) {
  const ExchangeCosts costs = {Curve({{0, 0}, {100, 4}}), Curve({{0, 0}, {100, 1}}), {}};
  const ExchangeTime seconds = measured_exchange(costs);
  const HostGroups hosts = even_hosts(1, 2);
  Traffic even(hosts), one(hosts);
  even.inside.sent = even.inside.received = {100, 100};
  one.inside.sent = {100, 0};
  one.inside.received = {0, 100};
  EXPECT_DOUBLE_EQ(seconds(even), 4.0);
  EXPECT_DOUBLE_EQ(seconds(one), 1.0);
}

TEST(Cost, RowsOverAllRanksAreSharedWorkAndBytes) {
  const CostModel model(test_profile(2), test_workload({4096}));
  const Prediction found = model.predict(plan_of({over_all_ranks("t0", 2)}, 2));
  // Every rank asks for 1000 keys, half of them of each: 1000 requests per rank.
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
  EXPECT_DOUBLE_EQ(found.bytes[0].tables, 21000 * (64 + 4));  // with lists of the rows of bins
  EXPECT_DOUBLE_EQ(found.bytes[2].tables, 22000 * (64 + 4));
  profile.device = "cuda";
  const Prediction on_gpus =
      CostModel(profile, workload).predict(plan_of({over_all_ranks("t0", 3)}, 3));
  EXPECT_DOUBLE_EQ(on_gpus.bytes[0].tables, 21000 * 64);
  const ShardPlan cut = parse_plan("ranks 3\nt0 rows 0-99 100-4095 none", "p");
  EXPECT_THAT([&] { model.predict(cut); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("evicts keys in bins of 64 parts")));
}

// Two ranks, steps of 10 ms with rows over all ranks and of 15 ms with columns, with one shard of
// 1000 rows on each.
MachineProfile profile_with_steps() {
  MachineProfile profile = test_profile(2);
  profile.steps = {1,
                   {{{Holding::kRows}, Curve({{1000, 10e-3}, {2000, 20e-3}})},
                    {{Holding::kColumns}, Curve({{1000, 15e-3}, {2000, 30e-3}})}}};
  return profile;
}

TEST(Cost, AStepIsTheProbedOneAndWhatThePlanAdds) {
  const Workload workload = test_workload({4096});
  const CostModel model(profile_with_steps(), workload), parts(test_profile(2), workload);
  const ShardPlan rows = plan_held(workload, {Holding::kRows}, 2);
  const ShardPlan one = plan_of({on_rank("t0", 1, 2)}, 2);
  EXPECT_NEAR(model.predict(rows).seconds.total(), 10e-3, 1e-12);
  EXPECT_NEAR(model.predict(rows).seconds.overlap, 10e-3 - parts.predict(rows).seconds.total(),
              1e-12);
  EXPECT_NEAR(model.predict(plan_held(workload, {Holding::kColumns}, 2)).seconds.total(), 15e-3,
              1e-12);
  // A way that was not probed overlaps as rows do.
  EXPECT_NEAR(model.predict(one).seconds.total() - model.predict(rows).seconds.total(),
              parts.predict(one).seconds.total() - parts.predict(rows).seconds.total(), 1e-12);
  EXPECT_DOUBLE_EQ(parts.predict(rows).seconds.overlap, 0.0);
}

TEST(Cost, WhatAWayTakesMoreIsSharedByItsTables) {
  const Workload workload = test_workload({4096, 4096});
  const CostModel model(profile_with_steps(), workload);
  const auto overlap = [&](const ShardPlan& plan) { return model.predict(plan).seconds.overlap; };
  ShardPlan half = plan_held(workload, {Holding::kRows}, 2);
  half.tables[1] = by_columns("t1", {0, 1}, 2);
  EXPECT_NEAR(overlap(half),
              0.5 * overlap(plan_held(workload, {Holding::kRows}, 2)) +
                  0.5 * overlap(plan_held(workload, {Holding::kColumns}, 2)),
              1e-12);
  // In proportion to the time of their parts.
  const Workload uneven = test_workload({4096, 100});
  const CostModel of_uneven(profile_with_steps(), uneven);
  const TableLoad large = of_uneven.load_of(0, by_columns("t0", {0, 1}, 2));
  const TableLoad small = of_uneven.load_of(1, by_columns("t1", {0, 1}, 2));
  EXPECT_NE(large.overlap, 0.0);
  EXPECT_NEAR(small.overlap / small.seconds, large.overlap / large.seconds, 1e-12);
}

TEST(Cost, TwoWaysSideBySideTakeWhatWasProbedOfThemOnce) {
  const Workload workload = test_workload({4096, 4096, 4096});
  MachineProfile profile = profile_with_steps();
  const HeldTables every_second{Holding::kReplicated, true};
  const CostModel before(profile, workload);
  const ShardPlan mixed = plan_held(workload, every_second, 2);
  const double parts = before.predict(mixed).seconds.total();
  profile.steps.held.push_back({every_second, Curve({{1000, parts + 3e-3}})});
  const CostModel model(profile, workload);
  EXPECT_NEAR(model.predict(mixed).seconds.total(), parts + 3e-3, 1e-12);
  const auto added = [&](const ShardPlan& plan) {
    return model.predict(plan).seconds.total() - before.predict(plan).seconds.total();
  };
  EXPECT_NEAR(added(plan_held(workload, {Holding::kReplicated}, 2)), 0.0, 1e-12);
  ShardPlan one = plan_held(workload, {Holding::kRows}, 2);
  EXPECT_NEAR(added(one), 0.0, 1e-12);
  one.tables[1] = on_every_rank("t1");
  EXPECT_NEAR(added(one), 3e-3, 1e-12);
  one.tables[0] = by_columns("t0", {0, 1}, 2);
  EXPECT_NEAR(added(one), 3e-3, 1e-12);
  one.tables[2] = by_columns("t2", {0, 1}, 2);  // columns, which cost nothing more, and copies
  EXPECT_NEAR(added(one), 3e-3, 1e-12);
}

TEST(Cost, ProbedStepsAreMetWhereSomeTablesCannotBeCut) {
  Workload workload = test_workload({4096, 4096});
  workload.tables[0].allowed.columns = false;
  const ShardPlan columns = plan_held(workload, {Holding::kColumns}, 2);
  EXPECT_EQ(holding_of(columns.tables[0]), Holding::kRows);
  EXPECT_EQ(holding_of(columns.tables[1]), Holding::kColumns);
  const CostModel model(profile_with_steps(), workload);
  EXPECT_NEAR(model.predict(columns).seconds.total(), 15e-3, 1e-12);
}

TEST(Holding, IsFoundInEveryPlanThatIsHeldSo) {
  const Workload workload = test_workload({4096, 4096, 4096});
  for (const Holding holding : kHoldings) {
    EXPECT_EQ(parse_holding(name_of(holding)), holding);
    for (const TableShards& shards : plan_held(workload, {holding}, 2).tables)
      EXPECT_EQ(holding_of(shards), holding) << name_of(holding);
  }
  EXPECT_EQ(parse_holding("row"), std::nullopt);
  const ShardPlan one = plan_held(workload, {Holding::kRank}, 2);
  EXPECT_EQ(one.tables[2], on_rank("t2", 0, 2));
  EXPECT_EQ(holding_of(on_rank("t0", 0, 1)), Holding::kRows);  // all rows of one rank
  const ShardPlan second = plan_held(workload, {Holding::kReplicated, true}, 2);
  EXPECT_EQ(second.tables[0], on_every_rank("t0"));
  EXPECT_EQ(second.tables[1], over_all_ranks("t1", 2));
  const ShardPlan small = plan_held(test_workload({10, 4096}), {Holding::kRank, false, 100}, 2);
  EXPECT_EQ(small.tables[0], on_rank("t0", 0, 2));
  EXPECT_EQ(small.tables[1], over_all_ranks("t1", 2));
}

TEST(Cost, AStepTakesAtLeastAsLongAsItsLongestPart) {
  StepParts parts{.dense = 3e-3, .update = 2e-3, .overlap = -1e-3};
  EXPECT_DOUBLE_EQ(parts.total(), 4e-3);
  parts.overlap = -6e-3;
  EXPECT_DOUBLE_EQ(parts.total(), 3e-3);
}

TEST(Cost, ShardsAndOtherNumbersOfRanksOverlapAsProbedOnesDo) {
  Workload workload = test_workload({4096});
  const double one = CostModel(profile_with_steps(), workload)
                         .predict(plan_of({over_all_ranks("t0", 2)}, 2))
                         .seconds.overlap;
  EXPECT_LT(one, 0.0);
  const CostModel described(profile_with_steps(), workload, even_hosts(1, 8),
                            [](const Traffic&) { return 0.0; });
  EXPECT_DOUBLE_EQ(described.predict(plan_of({over_all_ranks("t0", 8)}, 8)).seconds.overlap, one);
  const CostModel with_rows = described.with(test_workload({100}));
  EXPECT_NE(with_rows.predict(plan_of({over_all_ranks("t0", 8)}, 8)).seconds.overlap, one);
  workload.shards = 3;
  const CostModel shards(profile_with_steps(), workload);
  EXPECT_DOUBLE_EQ(shards.predict(plan_of({over_all_ranks("t0", 2)}, 2)).seconds.overlap, 3 * one);
}

TEST(Cost, ATableWithoutACapacityHasMoreRowsOnAGpuThanKeys) {
  Workload workload = test_workload({0});
  workload.tables[0].settings.kind = TableKind::kDynamic;
  MachineProfile profile = test_profile(2);
  profile.tables[0].table.is_dynamic = true;
  const auto bytes = [&](double keys, const char* device) {
    workload.tables[0].expected_keys = keys;
    profile.device = device;
    return CostModel(profile, workload)
        .predict(plan_of({over_all_ranks("t0", 2)}, 2))
        .bytes[0]
        .tables;
  };
  EXPECT_DOUBLE_EQ(bytes(200'000, "cpu"), 100'000 * 64);
  EXPECT_DOUBLE_EQ(bytes(1000, "cuda"), 65'536 * 64);
  EXPECT_DOUBLE_EQ(bytes(200'000, "cuda"), (65'536 * 3 / 2 * 3 / 2) * 64);
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
  EXPECT_NEAR(found.seconds.gather, 1e-3, 1e-9);      // its own keys
  EXPECT_NEAR(found.seconds.update, 4 * 2e-3, 1e-9);  // the keys of all ranks
  for (const RankBytes& bytes : found.bytes) EXPECT_DOUBLE_EQ(bytes.tables, 4096 * 64);
}

// Half as wide rows cost half of the time to hold, and 0.8 of it to find and pool.
MachineProfile profile_of_slices() {
  MachineProfile profile = test_profile(2);
  const auto line = [](double each) { return Curve({{0, 0}, {1e6, 1e6 * each}}); };
  profile.tables.push_back({.table = {.dim = 8},
                            .gather = KernelCurves({{1 << 20, 1.0, line(0.5e-6)}}),
                            .update = KernelCurves({{1 << 20, 1.0, line(1e-6)}}),
                            .requests = line(0.8e-7),
                            .sums = line(1.6e-7),
                            .bytes_per_row = 32});
  return profile;
}

TEST(Cost, EveryHolderOfColumnsGetsAllKeysAndSendsItsOwn) {
  const CostModel model(profile_of_slices(), test_workload({4096}));
  const Prediction found = model.predict(plan_of({by_columns("t0", {1, 0}, 2)}, 2));
  EXPECT_NEAR(found.seconds.gather, 2000 * 0.5e-6, 1e-9);
  EXPECT_NEAR(found.seconds.update, 2000 * 1e-6, 1e-9);
  EXPECT_NEAR(found.seconds.keys, 2e-4 + 4e-9 + 1000 * 8e-9, 1e-9);
  EXPECT_NEAR(found.seconds.rows, 1e-4 + 1000 * 32e-9, 1e-9);
  EXPECT_NEAR(found.seconds.gradients, 1e-4 + 1000 * 32e-9, 1e-9);
  // Keys are found once for each slice.
  EXPECT_NEAR(found.seconds.requests, 1e-3 + 1000 * (2 * 0.8e-7 - 1e-7), 1e-9);
  EXPECT_NEAR(found.seconds.sums, 1e-3 + 1000 * (2 * 1.6e-7 - 2e-7), 1e-9);
  for (const RankBytes& bytes : found.bytes) EXPECT_DOUBLE_EQ(bytes.tables, 4096 * 32);
}

TEST(Cost, RowsThatAreUpdatedAsAWholeAreNotCut) {
  Workload workload = test_workload({4096});
  workload.tables[0].settings.rule = RowWiseAdaGrad{};
  MachineProfile profile = test_profile(2);
  profile.tables[0].table.rule = name_of(workload.tables[0].settings.rule);
  EXPECT_THAT(
      [&] {
        CostModel(profile, workload).predict(plan_of({by_columns("t0", {0, 1}, 2)}, 2));
      },
      testing::ThrowsMessage<Error>(
          testing::HasSubstr("needs whole rows; use 'rows' or 'rank N'")));
}

TEST(Cost, SlicesAreBetweenTheClassesThatWereProbed) {
  MachineProfile profile = profile_of_slices();
  profile.tables[1].table.dim = 4;
  const CostModel model(profile, test_workload({4096}));
  const TableLoad half = model.load_of(0, by_columns("t0", {0, 1}, 2));  // 8 columns
  EXPECT_NEAR(half.gather[0], 2000 * (0.5e-6 + 0.5e-6 / 3), 1e-9);
  // Narrower ones cost what the narrowest does, but for their memory.
  const CostModel eight(profile, test_workload({4096}), even_hosts(1, 8),
                        [](const Traffic&) { return 0.0; });
  const TableLoad narrow = eight.load_of(0, by_columns("t0", {0, 1, 2, 3, 4, 5, 6, 7}, 8));
  EXPECT_NEAR(narrow.gather[0], 8000 * 0.5e-6, 1e-9);
  EXPECT_DOUBLE_EQ(narrow.bytes[0].tables, 4096 * 16);
}

TEST(Cost, AnOwnerThatPoolsGetsAllKeysAndSendsVectorsOfBags) {
  Workload workload = test_workload({100'000});
  workload.tables[0].keys = DistinctKeys({{1, 5}, {2, 10}}, 5, 100'000);  // five a bag
  const CostModel model(test_profile(2), workload);
  TableShards shards = on_rank("t0", 1, 2);
  shards.pooled_at_owner = true;
  const Prediction found = model.predict(plan_of({shards}, 2));
  // One of two exchanges each is empty.
  EXPECT_NEAR(found.seconds.keys, 4e-4 + (4 + 16) * 1e-9 + (5000 * 8 + 1000 * 4) * 1e-9, 1e-9);
  EXPECT_NEAR(found.seconds.rows, 2e-4 + 1000 * 64e-9, 1e-9);
  EXPECT_NEAR(found.seconds.gradients, 2e-4 + 1000 * 64e-9, 1e-9);
  EXPECT_NEAR(found.seconds.gather, 10'000 * 1e-6, 1e-9);
  // The owner pools for the other rank, too.
  EXPECT_NEAR(found.seconds.requests, 1e-3 + 5000 * 1e-7, 1e-9);
  EXPECT_NEAR(found.seconds.sums, 1e-3 + 5000 * 2e-7, 1e-9);
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
