#include "bench/train_floor.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(TrainFloor, CountsEveryRowOfEveryFeatureOnce) {
  Batch batch;
  batch.rows = 2;
  batch.sparse.resize(2);
  batch.sparse[0].keys = {7, 7};
  batch.sparse[1].keys = {1, 2, 2, 7};
  batch.sparse[1].offsets = {0, 2, 4};
  const TableWork work = table_work(batch);
  EXPECT_EQ(work.bags, 4);
  EXPECT_EQ(work.lookups, 6);
  EXPECT_EQ(work.unique_rows, 4);
}

TEST(TrainFloor, ARowIsReadTwiceAndWrittenOnceAndAGradientWrittenAndRead) {
  const TableWork work{.bags = 10, .lookups = 10, .unique_rows = 3};
  EXPECT_EQ(least_table_bytes(work, 8, 0, DType::kBf16), 3 * 3 * 32 + 2 * 10 * 16 + 80);
  EXPECT_EQ(least_table_bytes(work, 8, 16, DType::kF32),
            3 * 3 * 32 + 2 * 3 * 64 + 2 * 10 * 32 + 80);
}

}  // namespace
}  // namespace emblem
