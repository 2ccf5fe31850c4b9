#include "bench/plan/plan_bench.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(Backtest, FittedSystemsAreMetAndLargerOnesArePredictedFaster) {
  const std::vector<BacktestRow> rows = backtest_mlperf();
  ASSERT_EQ(rows.size(), 5u);
  for (const BacktestRow& row : rows) {
    if (row.is_fitted)
      EXPECT_NEAR(row.error(), 0, 1e-9) << row.system;
    else
      EXPECT_LT(std::abs(row.error()), 0.5) << row.system;
    EXPECT_GT(row.predicted_ms, 0);
  }
  EXPECT_LT(rows[2].predicted_ms, rows[1].predicted_ms);
}

}  // namespace
}  // namespace emblem
