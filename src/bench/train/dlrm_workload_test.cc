#include "bench/train/dlrm_workload.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(DlrmShape, PresetsHaveThePublishedNumbersOfRows) {
  EXPECT_EQ(sok_dlrm().scaled_down(1).rows(), 187'767'399);
  EXPECT_EQ(dle_dlrm().scaled_down(1).rows(), 32'709'138);
  EXPECT_EQ(mlperf_dcnv2().scaled_down(1).rows(), 204'184'588);
}

TEST(DlrmShape, SmallerTablesKeepAFewRows) {
  const DlrmShape all = sok_dlrm(), few = all.scaled_down(1000);
  for (size_t t = 0; t < all.table_rows.size(); ++t) {
    const int64_t rows = all.table_rows[t];
    EXPECT_EQ(few.table_rows[t], rows >= 4000 ? rows / 1000 : std::min<int64_t>(rows, 4));
  }
}

}  // namespace
}  // namespace emblem
