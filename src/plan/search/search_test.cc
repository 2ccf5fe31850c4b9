#include "plan/search/search.h"

#include <gmock/gmock.h>

#include "core/math/random.h"
#include "plan/probe/plain_profile_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;

TEST(Search, SpreadsALargeTable) {
  const MachineProfile profile = test_profile(4);
  const CostModel model(profile, test_workload({100'000}));
  const FoundPlan found = search_plan(model, profile.memory);
  EXPECT_EQ(found.plan.tables[0], over_all_ranks("t0", 4));
  EXPECT_NEAR(found.plan.predicted_ms, 1e3 * found.prediction.seconds.total(), 1e-9);
}

TEST(Search, TriesColumnsAndOwnersWhereTheyArePossible) {
  const auto kinds_of = [](const WorkloadTable& table) {
    std::vector<std::string> kinds;
    for (const TableShards& shards : candidates_of(table, 2)) kinds.push_back(describe(shards));
    return kinds;
  };
  WorkloadTable table = test_table("t0", 5000);
  EXPECT_THAT(kinds_of(table), testing::ElementsAre("rows over all ranks", "on rank 0", "on rank 1",
                                                    "on every rank", "columns over all ranks"));
  table.settings.rule = RowWiseAdaGrad{};
  EXPECT_EQ(kinds_of(table).size(), 4u);
  table.settings.rule = Sgd{};
  table.keys = DistinctKeys({{1, 5}, {2, 10}}, 5, 5000);
  EXPECT_THAT(
      kinds_of(table),
      testing::ElementsAre("rows over all ranks", "on rank 0", "on rank 0, pooled there",
                           "on rank 1", "on rank 1, pooled there", "on every rank",
                           "columns over all ranks", "columns over all ranks, pooled there"));
  table.is_of_elements = true;
  EXPECT_EQ(kinds_of(table).size(), 5u);
  table.allowed.columns = false;
  EXPECT_EQ(kinds_of(table).size(), 4u);
}

TEST(Search, CutsATableThatMayBeHeldInNoOtherWayIntoItsFewColumns) {
  WorkloadTable table = test_table("t0", 5000);
  table.settings.dim = 2;
  EXPECT_EQ(table.slices(3), 1);
  table.allowed = {.rows = false, .one_rank = false, .columns = true, .replicated = false};
  EXPECT_THAT(candidates_of(table, 3),
              testing::ElementsAre(by_columns("t0", {0, 1}, 3), by_columns("t0", {1, 2}, 3),
                                   by_columns("t0", {2, 0}, 3)));
  EXPECT_THAT(candidates_of(table, 2), testing::ElementsAre(by_columns("t0", {0, 1}, 2)));
}

// Keys of a bag seldom repeat: a vector is less than their rows.
TEST(Search, PoolsLongBagsAtTheirOwner) {
  MachineProfile profile = test_profile(2);
  profile.exchange.even = profile.exchange.one = Curve({{0, 1e-4}, {1e6, 1e-4 + 1}});  // slow
  Workload workload = test_workload({1'000'000});
  workload.tables[0].keys = DistinctKeys({{1, 20}, {2, 40}}, 20, 1'000'000);
  const FoundPlan found = search_plan(CostModel(profile, workload), profile.memory);
  EXPECT_TRUE(found.plan.tables[0].pooled_at_owner);
}

TEST(Search, ObeysWhatATableMayBe) {
  const MachineProfile profile = test_profile(2);
  Workload workload = test_workload({5000, 5000, 5000});
  workload.tables[0].allowed = {
      .rows = false, .one_rank = false, .columns = false, .replicated = true};
  workload.tables[1].allowed = {
      .rows = false, .one_rank = true, .columns = false, .replicated = false};
  workload.tables[2].allowed = {
      .rows = true, .one_rank = false, .columns = false, .replicated = false};
  const FoundPlan found = search_plan(CostModel(profile, workload), profile.memory);
  EXPECT_TRUE(found.plan.tables[0].replicated);
  EXPECT_THAT(describe(found.plan.tables[1]), HasSubstr("on rank"));
  EXPECT_EQ(found.plan.tables[2], over_all_ranks("t2", 2));
}

// The oracle: every plan of small problems, with fixed costs per table that make spreading a trade.
TEST(Search, IsWithinTwoPercentOfTheBestOfAllPlans) {
  Random random{.seed = 11};
  double worst = 0;
  int equal = 0;
  constexpr int kProblems = 60;
  for (int problem = 0; problem < kProblems; ++problem) {
    const int ranks = 2 + static_cast<int>(random.below(2));
    MachineProfile profile = test_profile(ranks);
    const double fixed = 1e-5 * static_cast<double>(random.below(60));
    const auto line = [&](double each) { return Curve({{0, fixed}, {1e6, fixed + 1e6 * each}}); };
    profile.tables[0].gather = KernelCurves({{1, 1.0, line(1e-7)}});
    profile.tables[0].update = KernelCurves({{1, 1.0, line(2e-7)}});
    std::vector<int64_t> rows;
    for (uint64_t t = 0; t < 3 + random.below(4); ++t)
      rows.push_back(static_cast<int64_t>(1 + random.below(3000)));
    for (MemoryPool& pool : profile.memory)
      pool.free_bytes = static_cast<int64_t>(random.below(2) == 0 ? 1 << 30 : 1'200'000);
    const CostModel model(profile, test_workload(rows));
    const FoundPlan found = search_plan(model, profile.memory);
    const auto best = search_all_plans(model, profile.memory);
    ASSERT_TRUE(best);
    const auto missing = [&](const FoundPlan& plan) {
      double sum = 0;
      for (const double bytes : bytes_short(plan.prediction, profile.memory)) sum += bytes;
      return sum;
    };
    EXPECT_EQ(missing(found) > 0, missing(*best) > 0) << to_text(found.plan) << to_text(best->plan);
    if (missing(*best) > 0) continue;
    const double ratio = found.prediction.seconds.total() / best->prediction.seconds.total();
    worst = std::max(worst, ratio);
    equal += ratio < 1.0001;
    EXPECT_EQ(found.plan, search_plan(model, profile.memory).plan);  // deterministic
  }
  EXPECT_LE(worst, 1.02);
  EXPECT_GE(equal, kProblems / 2);
}

// Plans whose times differ by less than measurements do made it go round in circles.
TEST(Search, Ends) {
  MachineProfile profile = test_profile(2);
  const auto line = [](double fixed, double each) {
    return Curve({{0, fixed}, {1e6, fixed + 1e6 * each}});
  };
  profile.pass.dense = line(1.0, 0);  // so that differences between plans are tiny
  profile.tables[0].gather_alone_share = profile.tables[0].update_alone_share = 0.5;
  Random random{.seed = 2};
  for (int problem = 0; problem < 20; ++problem) {
    std::vector<int64_t> rows;
    for (int t = 0; t < 26; ++t) rows.push_back(static_cast<int64_t>(1 + random.below(2000)));
    const CostModel model(profile, test_workload(rows));
    EXPECT_LT(search_plan(model, profile.memory).evaluated, 100'000);
  }
}

TEST(Search, CountsPlansBeforeItTriesThemAll) {
  const MachineProfile profile = test_profile(4);
  const CostModel model(profile, test_workload(std::vector<int64_t>(20, 1000)));
  EXPECT_FALSE(search_all_plans(model, profile.memory));
}

TEST(Search, HandlesHundredsOfTables) {
  const MachineProfile profile = test_profile(4);
  const CostModel model(profile, test_workload(std::vector<int64_t>(300, 1000)));
  EXPECT_EQ(search_plan(model, profile.memory).plan.tables.size(), 300u);
}

TEST(Misfit, NamesTheRankTheTableTheBytesAndTheChange) {
  MachineProfile profile = test_profile(2);
  for (MemoryPool& pool : profile.memory) pool.free_bytes = 40'000'000;
  const CostModel model(profile, test_workload({2'000'000, 1000}));  // 128 MB and 64 kB
  const FoundPlan found = search_plan(model, profile.memory);
  const auto line = explain_misfit(model, profile.memory, found);
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, HasSubstr("no plan fits: rank "));
  EXPECT_THAT(*line, HasSubstr("too many; the largest table there is t0 (rows over all ranks"));
  EXPECT_THAT(*line, HasSubstr("To fit: use 4 ranks with as much memory each"));
}

TEST(Misfit, NamesAConstraintThatStandsInTheWay) {
  MachineProfile profile = test_profile(2);
  for (MemoryPool& pool : profile.memory) pool.free_bytes = 10'000'000;
  Workload workload = test_workload({200'000});  // 12.8 MB
  workload.tables[0].allowed = {
      .rows = false, .one_rank = true, .columns = false, .replicated = true};
  const CostModel model(profile, workload);
  const auto line = explain_misfit(model, profile.memory, search_plan(model, profile.memory));
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, HasSubstr("To fit: let table t0, which may be one rank or replicated only, be "
                               "rows over all ranks (embedding_constraints)"));
}

TEST(Misfit, IsEmptyForAPlanThatFits) {
  const MachineProfile profile = test_profile(2);
  const CostModel model(profile, test_workload({1000}));
  EXPECT_FALSE(explain_misfit(model, profile.memory, search_plan(model, profile.memory)));
}

TEST(Explain, SaysWhatOtherWaysWouldCost) {
  const MachineProfile profile = test_profile(2);
  const CostModel model(profile, test_workload({100'000}));
  const FoundPlan found = search_plan(model, profile.memory);
  EXPECT_THAT(explain_plan(model, profile.memory, found),
              testing::ElementsAre(testing::MatchesRegex(
                  "t0: rows over all ranks, because on rank 0: \\+.* ms; on every rank: \\+.* ms; "
                  "columns over all ranks: \\+.* ms")));
}

// Probed steps and parts come from different moments of a machine that others use, too.
TEST(Search, EndsWhereAProbedStepIsShorterThanEveryOneOfItsParts) {
  MachineProfile profile = test_profile(3);
  profile.device = "cuda";
  profile.steps = {1, {{{Holding::kRows}, Curve({{1000, 1e-9}})}}};
  // The rows of a third of a table are slow by chance, which the probed step has not seen.
  const auto line = [](double each) { return Curve({{0, 0}, {1e6, 1e6 * each}}); };
  profile.tables[0].gather =
      KernelCurves({{1000 / 3 * 64, 1.0, line(1e-3)}, {1000 * 64, 1.0, line(1e-6)}});
  const CostModel model(profile, test_workload({1000, 1000, 1000}));
  const FoundPlan found = search_plan(model, profile.memory);
  EXPECT_GE(found.prediction.seconds.total(), 0.0);
}

}  // namespace
}  // namespace emblem
