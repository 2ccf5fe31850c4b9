#include "bench/train/bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::Not;

// Ten seconds of stages: a tenth of each does not depend on the batch, and all of the dense update.
StepTimes usual() {
  return {.step = 10,
          .stages = {.lookup = 2, .forward = 3, .backward = 3, .update = 1, .dense_update = 1},
          .fixed_share = {
              .lookup = 0.1, .forward = 0.1, .backward = 0.1, .update = 0.1, .dense_update = 1}};
}

double sum(const StepShares& s) { return s.data + s.copy + s.dense + s.embedding + s.launch; }

TEST(TrainBound, WhatDependsOnTheBatchIsDenseAndEmbedding) {
  const StepShares shares = shares_of(usual());
  EXPECT_NEAR(shares.dense, 0.54, 1e-12);
  EXPECT_NEAR(shares.embedding, 0.27, 1e-12);
  EXPECT_NEAR(shares.launch, 0.19, 1e-12);
  EXPECT_NEAR(sum(shares), 1, 1e-12);
  EXPECT_EQ(bound_of(shares), Bound::kDense);
}

TEST(TrainBound, EachPartCanBeTheLargest) {
  StepTimes slow_disk = usual();
  slow_disk.load = 30;
  slow_disk.step = 40;
  EXPECT_EQ(bound_of(shares_of(slow_disk)), Bound::kData);

  StepTimes slow_bus = slow_disk;
  std::swap(slow_bus.load, slow_bus.transfer);
  EXPECT_EQ(bound_of(shares_of(slow_bus)), Bound::kCopy);

  StepTimes rows = usual();
  rows.stages.lookup = 20;
  rows.step = 28;
  EXPECT_EQ(bound_of(shares_of(rows)), Bound::kEmbedding);

  StepTimes tiny = usual();
  tiny.fixed_share = {
      .lookup = 0.8, .forward = 0.8, .backward = 0.8, .update = 0.8, .dense_update = 1};
  EXPECT_EQ(bound_of(shares_of(tiny)), Bound::kLaunch);
}

TEST(TrainBound, TimeOutsideOfAllStagesIsLaunch) {
  StepTimes idle = usual();
  idle.step = 100;
  EXPECT_NEAR(shares_of(idle).launch, 0.919, 1e-12);
}

TEST(TrainBound, OnAGpuOnlyWaitingThatDoesNotOverlapCounts) {
  StepTimes hidden = usual();
  hidden.load = 8;
  hidden.resident_step = 10;
  EXPECT_EQ(shares_of(hidden).data, 0);
  StepTimes felt = hidden;
  felt.step = 14;
  EXPECT_NEAR(shares_of(felt).data, 4.0 / 14, 1e-12);
}

TEST(TrainBound, RowsThatMissTheCacheAreNotWaitingForData) {
  StepTimes missing = usual();
  missing.load = 8;
  missing.stages.lookup = 12;
  missing.step = 20;
  missing.resident_step = 10;  // the rows of a repeated batch are cached
  EXPECT_EQ(shares_of(missing).data, 0);
  EXPECT_EQ(bound_of(shares_of(missing)), Bound::kEmbedding);
}

TEST(TrainBound, AnEmptyMeasurementHasNoShares) { EXPECT_EQ(sum(shares_of({})), 0); }

TEST(TrainBound, TheTextNamesTheShareAndWhatToChange) {
  const std::string text = explain_bound({.data = 0.8, .dense = 0.2}, {});
  EXPECT_THAT(text, HasSubstr("Bound by data: 80 %"));
  EXPECT_THAT(text, HasSubstr("num_workers"));
  EXPECT_THAT(text, Not(HasSubstr("Next")));
  EXPECT_THAT(explain_bound({.dense = 0.5, .embedding = 0.4}, {}),
              HasSubstr("Next: embedding, 40 %."));
}

TEST(TrainBound, TheTextDependsOnTheDevice) {
  const StepShares dense{.dense = 1}, rows{.embedding = 1};
  EXPECT_THAT(explain_bound(dense, {}), HasSubstr("--device cuda"));
  EXPECT_THAT(explain_bound(dense, {.device = Device::kCuda}), HasSubstr("BF16"));
  EXPECT_THAT(explain_bound(dense, {.device = Device::kCuda, .precision = DType::kBf16}),
              Not(HasSubstr("BF16")));
  EXPECT_THAT(explain_bound(rows, {.device = Device::kCuda, .cached_rows = true}),
              HasSubstr("device_bytes"));
}

}  // namespace
}  // namespace emblem
