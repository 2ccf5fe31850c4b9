#include "data/loader/batch_planner.h"

#include <gmock/gmock.h>

#include <set>

namespace emblem {
namespace {

// A piece whose rows are all taken is filled again while other batches are assembled: none of them
// may look at it.
TEST(BatchPlanner, APlanNamesOnlyPiecesThatItTakesRowsFrom) {
  for (const int64_t window_rows : {0, 7, 40}) {
    BatchPlanner planner({.batch_size = 4, .window_rows = window_rows, .pieces = 12});
    std::deque<ReadyPiece> pieces(12);
    std::deque<BatchPlan> plans;
    BatchPlan dropped;
    for (int64_t p = 0; p < 12; ++p) {
      pieces[p].features.rows = 1 + p % 5;
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

}  // namespace
}  // namespace emblem
