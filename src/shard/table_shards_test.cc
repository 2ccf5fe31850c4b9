#include "shard/table_shards.h"

#include <gmock/gmock.h>

#include "core/math/random.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string problem_of(const std::string& text) {
  try {
    parse_plan(text, "p");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

ShardPlan random_plan(Random& random) {
  ShardPlan plan{.ranks = 1 + static_cast<int>(random.below(9))};
  for (int t = 0; t < 6; ++t) {
    const std::string name = "t" + std::to_string(t);
    const auto rank = static_cast<int>(random.below(static_cast<uint64_t>(plan.ranks)));
    switch (random.below(6)) {
      case 0:
        plan.tables.push_back(on_every_rank(name));
        break;
      case 1:
        plan.tables.push_back(on_rank(name, rank, plan.ranks));
        break;
      case 2:
        plan.tables.push_back(over_all_ranks(name, plan.ranks));
        break;
      case 3:
        plan.tables.push_back(on_rank(name, rank, plan.ranks));
        plan.tables.back().pooled_at_owner = true;
        break;
      case 4:
        plan.tables.push_back(
            by_columns(name, {rank, (rank + 1) % plan.ranks}, std::max(plan.ranks, 2)));
        if (plan.ranks == 1) plan.tables.back() = by_columns(name, {0}, 1);
        plan.tables.back().pooled_at_owner = random.below(2) == 0;
        break;
      default: {
        TableShards table{.table = name};
        int32_t next = 0;
        for (int r = 0; r < plan.ranks; ++r) {
          const auto left = static_cast<uint64_t>(kParts - next);
          const int32_t last = r + 1 == plan.ranks
                                   ? kParts
                                   : next + static_cast<int32_t>(random.below(3) * left / 3);
          table.held.push_back({next, last});
          next = last;
        }
        plan.tables.push_back(table);
      }
    }
  }
  return plan;
}

TEST(Plan, MayCarryAPrediction) {
  const ShardPlan plan = parse_plan("ranks 2\npredicted_ms 3.25\nC1 rows\n", "p");
  EXPECT_EQ(plan.predicted_ms, 3.25);
  EXPECT_EQ(to_text(plan), "ranks 2\npredicted_ms 3.25\nC1 rows\n");
  EXPECT_EQ(problem_of("ranks 2\npredicted_ms soon\nC1 rows\n"),
            "p:2: expected 'predicted_ms' and a positive number");
}

TEST(Plan, ReadsBackWhatItWrites) {
  Random random{.seed = 4};
  for (int i = 0; i < 300; ++i) {
    const ShardPlan plan = random_plan(random);
    ASSERT_EQ(parse_plan(to_text(plan), "p"), plan) << to_text(plan);
  }
}

TEST(Plan, HasALineATableAndComments) {
  const ShardPlan plan = parse_plan(
      "# of last week\n\nranks 2   # two\n  a rows\nb rank 1\r\nc replicated\nd rows 0-9 10-4095\n"
      "e rows none 0-4095\n",
      "p");
  ASSERT_EQ(plan.tables.size(), 5u);
  EXPECT_EQ(plan.of("a"), over_all_ranks("a", 2));
  EXPECT_EQ(plan.of("b"), on_rank("b", 1, 2));
  EXPECT_EQ(plan.of("e").held, on_rank("b", 1, 2).held);
  EXPECT_EQ(plan.of("d").held_by(1), (PartRange{10, kParts}));
  EXPECT_TRUE(plan.of("c").replicated);
  EXPECT_TRUE(plan.of("c").held_by(1).is_everything());
}

TEST(Plan, HasColumnsAndWhereBagsArePooled) {
  const ShardPlan plan = parse_plan(
      "ranks 3\na columns 2 2 0\nb columns 1 1 pooled owner\nc rank 1 pooled owner\n"
      "d rows pooled requester\n",
      "p");
  const TableShards a = plan.of("a");
  EXPECT_EQ(a.columns, (std::vector<int>{2, 0}));
  EXPECT_EQ(a.slice_of(2), 0);
  EXPECT_EQ(a.slice_of(0), 1);
  EXPECT_TRUE(a.held_by(0).is_everything());
  EXPECT_EQ(a.held_by(1).count(), 0);
  EXPECT_FALSE(a.pooled_at_owner);
  EXPECT_TRUE(plan.of("b").pooled_at_owner);
  EXPECT_TRUE(plan.of("c").pooled_at_owner);
  EXPECT_EQ(plan.of("d"), over_all_ranks("d", 3));
  EXPECT_EQ(problem_of("ranks 2\na columns 2 0\n"),
            "p:2: table a has 2 slices of columns on 1 ranks; name a rank for each slice");
  EXPECT_EQ(problem_of("ranks 2\na columns 2 0 2\n"),
            "p:2: rank 2 holds table a, but there are 2 ranks");
  EXPECT_EQ(problem_of("ranks 2\na columns 2 1 1\n"),
            "p:2: rank 1 has two slices of table a; name every rank once");
  EXPECT_EQ(problem_of("ranks 2\na columns few 1\n"),
            "p:2: expected a number of slices, found 'few'");
  EXPECT_EQ(problem_of("ranks 2\na rank 0 pooled here\n"),
            "p:2: bags are pooled at 'owner' or 'requester', found 'here'");
  for (const char* holders : {"rows", "replicated", "rows 0-9 10-4095"})
    EXPECT_EQ(problem_of(cat("ranks 2\na ", holders, " pooled owner\n")),
              "p:2: table a cannot be pooled at its owner: no rank has all keys of a bag; use "
              "'rank N' or 'columns'");
}

TEST(Plan, ErrorsNameTheFileAndTheLine) {
  EXPECT_EQ(problem_of(""), "p: not a plan: it begins with 'ranks N'");
  EXPECT_EQ(problem_of("a rows\n"), "p:1: a plan begins with 'ranks N'");
  EXPECT_EQ(problem_of("\nranks 0\n"), "p:2: 0 ranks, expected 1 to 4096");
  EXPECT_EQ(problem_of("ranks 4097\n"), "p:1: 4097 ranks, expected 1 to 4096");
  EXPECT_EQ(problem_of("ranks two\n"), "p:1: expected a number of ranks, found 'two'");
  EXPECT_EQ(problem_of("ranks 99999999999\n"),
            "p:1: expected a number of ranks, found '99999999999'");
  EXPECT_EQ(problem_of("ranks 2\na rank 2\n"), "p:2: rank 2 holds table a, but there are 2 ranks");
  EXPECT_EQ(problem_of("ranks 2\na rank -1\n"), "p:2: expected the number of a rank, found '-1'");
  for (const char* line : {"a", "a column", "a rows 0-4095", "a replicated 2", "a rank",
                           "a rank 0 1", "a rows 0-9 10-4000 4001-4095"})
    EXPECT_THAT(problem_of(cat("ranks 2\n", line, "\n")), HasSubstr("p:2: table a needs 'rows'"))
        << line;
  EXPECT_EQ(
      problem_of("ranks 2\na rows 0-9 11-4095\n"),
      "p:2: the parts of table a are 11-4095 where part 10 is next; parts are in the order of "
      "ranks");
  EXPECT_EQ(problem_of("ranks 2\na rows 0-9 10-99\n"),
            "p:2: no rank holds parts 100 to 4095 of table a");
  EXPECT_THAT(problem_of("ranks 2\na rows 0-9 ten\n"), HasSubstr("p:2: "));
  EXPECT_THAT(problem_of("ranks 2\na rows 0-9 10-5000\n"), HasSubstr("p:2: "));
}

TEST(Plan, IsForTheTablesOfAModel) {
  const ShardPlan plan = parse_plan("ranks 2\na rows\nb rank 0\n", "p");
  check_plan(plan, 2, {"b", "a"});
  EXPECT_THAT(
      [&] {
        check_plan(plan, 3, {"a", "b"});
      },
      ThrowsMessage<Error>("the plan (train_config.plan_path) is for 2 ranks, but there are 3; "
                           "start 2, or give another plan"));
  EXPECT_THAT([&] { check_plan(plan, 2, {"a"}); },
              ThrowsMessage<Error>(HasSubstr("has table b, which the model does not have")));
  EXPECT_THAT(
      [&] {
        check_plan(plan, 2, {"a", "b", "c"});
      },
      ThrowsMessage<Error>(HasSubstr("has no table c; add a line for it")));
  EXPECT_THAT([&] { check_plan(parse_plan("ranks 2\na rows\na rank 0\n", "p"), 2, {"a"}); },
              ThrowsMessage<Error>(HasSubstr("names table a twice; remove one of the lines")));
}

TEST(WholeBins, RowsOverAllRanksAreCutAtTheirBorders) {
  const TableShards plain = over_all_ranks("a", 3);
  EXPECT_EQ(in_whole_bins(plain, 0), plain);
  EXPECT_EQ(in_whole_bins(plain, 64).held,
            (std::vector<PartRange>{{0, 21 * 64}, {21 * 64, 42 * 64}, {42 * 64, kParts}}));
  EXPECT_EQ(in_whole_bins(plain, 2).held,
            (std::vector<PartRange>{{0, 0}, {0, 2048}, {2048, kParts}}));
  EXPECT_EQ(in_whole_bins(plain, 1).held, (std::vector<PartRange>{{0, 0}, {0, 0}, {0, kParts}}));
  EXPECT_EQ(in_whole_bins(over_all_ranks("a", 8), 64), over_all_ranks("a", 8));
  for (const int ranks : {1, 5, 63, 64, 65, 1000}) {
    const TableShards shards = in_whole_bins(over_all_ranks("a", ranks), 64);
    int32_t next = 0;
    for (const PartRange held : shards.held) {
      EXPECT_EQ(held.first, next);
      EXPECT_EQ(held.last % 64, 0);
      next = held.last;
    }
    EXPECT_EQ(next, kParts);
  }
}

TEST(WholeBins, OtherShardsAreKept) {
  for (const TableShards& shards :
       {on_every_rank("a"), on_rank("a", 1, 3), by_columns("a", {2, 0}, 3)})
    EXPECT_EQ(in_whole_bins(shards, 64), shards);
  const ShardPlan plan = parse_plan("ranks 3\na rows 0-63 none 64-4095", "p");
  EXPECT_EQ(in_whole_bins(plan.of("a"), 64), plan.of("a"));
}

TEST(WholeBins, APlanThatCutsOneIsRefused) {
  const ShardPlan plan = parse_plan("ranks 2\na rows 0-99 100-4095", "p");
  EXPECT_EQ(in_whole_bins(plan.of("a"), 0), plan.of("a"));
  EXPECT_THAT([&] { in_whole_bins(plan.of("a"), 64); },
              ThrowsMessage<Error>("the plan (train_config.plan_path) gives parts 0-99 of table a "
                                   "to a rank, but it evicts keys in bins of 64 parts, which are "
                                   "on one rank each; cut it at multiples of 64, or use 'rows' "
                                   "alone or 'rank N'"));
}

}  // namespace
}  // namespace emblem
