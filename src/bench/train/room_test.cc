#include "bench/train/train_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/train/dlrm_workload.h"
#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/system/process.h"
#include "emblem/error.h"
#include "model/lookup/memory_estimate.h"
#include "train/learner/learner.h"

namespace emblem {
namespace {

using testing::HasSubstr;

config::PipelineConfig pipeline(const DlrmShape& shape) {
  return parse_pipeline(dlrm_pipeline(shape, 1024, BenchTables::kStatic), "test", {});
}

TEST(TrainRoom, TheEstimateCountsTablesAndGrowsWithTheBatch) {
  const DlrmShape shape = kaggle_dlrm(16);
  const config::PipelineConfig config = pipeline(shape);
  const FeatureLayout layout = layout_of(config);
  const TrainingBytes bytes = estimate_training_bytes(config, layout);
  EXPECT_GE(bytes.fixed, shape.table_bytes());
  EXPECT_LT(bytes.fixed, 2 * shape.table_bytes());
  EXPECT_EQ(bytes.of(2000, 3) - bytes.of(1000, 3), 1000 * (bytes.per_row + 3 * bytes.batch_row));
  EXPECT_GT(estimate_training_bytes(config, layout, 8).batch_row, 4 * bytes.batch_row);
}

// A process that uses more than its estimate could be killed.
TEST(TrainRoom, TrainingUsesNoMoreThanItsEstimate) {
  constexpr int64_t kRows = 20000;
  const DlrmShape shape = kaggle_dlrm(16).scaled_down(10);
  const config::PipelineConfig config = pipeline(shape);
  const FeatureLayout layout = layout_of(config);
  reset_peak_resident_bytes();
  const int64_t before = resident_bytes();
  {
    const Context context;
    const std::vector<Batch> batches = dlrm_batches(context, shape, 1, kRows, 1.05, 1);
    std::vector<FeatureKeys> keys;
    for (const SparseColumn& column : batches[0].sparse)
      keys.push_back({{column.keys.data(), kRows, 1}, {}, {}});
    Learner learner(context, config, layout, kRows);
    learner.step({.rows = kRows,
                  .dense = {batches[0].dense.data(), kRows, 13},
                  .labels = {batches[0].labels.data(), kRows, 1},
                  .weights = {},
                  .sparse = keys},
                 0);
  }
  const int64_t taken = peak_resident_bytes() - before;
  const int64_t estimate = estimate_training_bytes(config, layout).of(kRows, 1);
  EXPECT_LE(taken, estimate);
  EXPECT_GE(taken, estimate / 4);  // the estimate is not far too high
}

TEST(TrainRoom, WhatDoesNotFitIsReportedBeforeAllocating) {
  const config::PipelineConfig config = pipeline(kaggle_dlrm(16));
  const FeatureLayout layout = layout_of(config);
  const Context cpu;
  EXPECT_NO_THROW(require_host_memory(cpu, config, layout, {.rows = 1024}, 1LL << 30));
  EXPECT_NO_THROW(
      require_host_memory({.device = Device::kCuda}, config, layout, {.rows = 1024}, 1));
  try {
    require_host_memory(cpu, config, layout, {.rows = 1'000'000'000}, 0);
    FAIL() << "a batch of a billion rows fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("batches of 1000000000 rows needs about"));
  }
}

}  // namespace
}  // namespace emblem
