#include "data/loader/batch_planner.h"

#include <gmock/gmock.h>

#include <set>

#include "emblem/error.h"

namespace emblem {
namespace {

// A piece whose rows are all taken is filled again while other batches are assembled: none of them
// may look at it.
TEST(BatchPlanner, APlanNamesOnlyPiecesThatItTakesRowsFrom) {
  for (const int64_t window_rows : {0, 7, 40}) {
    BatchPlanner planner({.batch_size = 4, .window_rows = window_rows});
    std::deque<ReadyPiece> pieces(12);
    std::deque<BatchPlan> plans;
    BatchPlan dropped;
    for (int64_t p = 0; p < 12; ++p) {
      pieces[p].features.rows = 1 + p % 5;
      pieces[p].ends_epoch = p == 11;
      planner.add(&pieces[p], plans, dropped);
    }
    ASSERT_GE(plans.size(), 7u);
    for (const BatchPlan& plan : plans) {
      std::set<uint32_t> taken_from;
      for (const RowRun& run : plan.runs) taken_from.insert(run.source);
      EXPECT_EQ(taken_from.size(), plan.sources.size());
    }
  }
}

TEST(BatchPlanner, EndsAfterEpochsInARowWithoutABatch) {
  for (const bool drop_remainder : {false, true}) {
    BatchPlanner planner(
        {.batch_size = 4, .drop_remainder = drop_remainder, .most_empty_epochs = 2});
    std::deque<ReadyPiece> pieces;
    const auto epoch = [&](int64_t rows) {
      std::deque<BatchPlan> plans;
      BatchPlan dropped;
      pieces.push_back({.ends_epoch = true});
      pieces.back().features.rows = rows;
      planner.add(&pieces.back(), plans, dropped);
      EXPECT_TRUE(plans.empty() || plans.back().last_in_epoch);
      int64_t dropped_rows = 0;
      for (const RowRun& run : dropped.runs) dropped_rows += run.count;
      EXPECT_EQ(dropped_rows, drop_remainder ? rows % 4 : 0);
      return plans.size();
    };
    EXPECT_EQ(epoch(0), 0u);
    EXPECT_FALSE(planner.has_ended());
    EXPECT_EQ(epoch(5), drop_remainder ? 1u : 2u);
    EXPECT_EQ(epoch(0), 0u);
    EXPECT_FALSE(planner.has_ended());
    EXPECT_EQ(epoch(drop_remainder ? 1 : 0), 0u);
    EXPECT_TRUE(planner.has_ended());
  }
}

// Data that became shorter since the position was saved.
TEST(BatchPlanner, APositionAfterTheLastFullBatchIsRefused) {
  for (const int64_t most_empty_epochs : {0, 1}) {
    BatchPlanner planner({.batch_size = 4,
                          .drop_remainder = true,
                          .most_empty_epochs = most_empty_epochs,
                          .start = {.row = 4, .rows_in_epoch = 4}});
    ReadyPiece piece{.ends_epoch = true};
    piece.features.rows = 6;
    std::deque<BatchPlan> plans;
    BatchPlan dropped;
    EXPECT_THROW(planner.add(&piece, plans, dropped), Error);
  }
}

}  // namespace
}  // namespace emblem
