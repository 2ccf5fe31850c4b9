#include "train/learner/loss_scaler.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

config::GradScaler settings(float scale, uint32_t interval) {
  config::GradScaler settings;
  settings.set_init_scale(scale);
  settings.set_growth_interval(interval);
  return settings;
}

TEST(LossScaler, IsOneAndIdleUnlessInFp16) {
  LossScaler scaler(DType::kBf16, settings(1024, 1));
  EXPECT_FALSE(scaler.active());
  scaler.observe_good_step();
  EXPECT_EQ(scaler.scale(), 1.0f);
}

TEST(LossScaler, GrowsAfterGoodStepsAndBacksOffAfterABadOne) {
  LossScaler scaler(DType::kF16, settings(1024, 3));
  EXPECT_TRUE(scaler.active());
  for (int i = 0; i < 2; ++i) scaler.observe_good_step();
  EXPECT_EQ(scaler.scale(), 1024.0f);
  scaler.observe_good_step();
  EXPECT_EQ(scaler.scale(), 2048.0f);
  for (int i = 0; i < 2; ++i) scaler.observe_good_step();
  scaler.observe_overflow();
  EXPECT_EQ(scaler.scale(), 1024.0f);
  for (int i = 0; i < 2; ++i) scaler.observe_good_step();
  EXPECT_EQ(scaler.scale(), 1024.0f) << "counts from the overflow on";
}

TEST(LossScaler, StaysWhereItIsWhenStatic) {
  LossScaler scaler(DType::kF16, settings(1024, 0));
  for (int i = 0; i < 5000; ++i) scaler.observe_good_step();
  scaler.observe_overflow();
  EXPECT_EQ(scaler.scale(), 1024.0f);
}

TEST(LossScaler, GivesUpWhenNoScaleHelps) {
  LossScaler scaler(DType::kF16, settings(4, 100));
  EXPECT_THAT(
      [&] {
        for (int i = 0; i < 100; ++i) scaler.observe_overflow();
      },
      ThrowsMessage<Error>(HasSubstr("--precision bf16")));
}

TEST(LossScaler, ContinuesFromASavedState) {
  LossScaler first(DType::kF16, settings(1024, 3)), second(DType::kF16, settings(1024, 3));
  first.observe_overflow();
  first.observe_good_step();
  first.observe_good_step();
  second.restore(first.state());
  EXPECT_EQ(second.scale(), 512);
  second.observe_good_step();
  EXPECT_EQ(second.scale(), 1024) << "the third good step after the overflow";
  second.restore(std::nullopt);
  EXPECT_EQ(second.scale(), 1024) << "a checkpoint of an older program changes nothing";
}

}  // namespace
}  // namespace emblem
