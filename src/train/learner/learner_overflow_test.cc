// Gradients that overflow: their batch is dropped, and nothing else.
#include <gmock/gmock.h>

#include <cstdlib>

#include "core/device/device_test.h"
#include "core/files/temp_folder_test.h"
#include "train/learner/small_learner_test.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

using testing::Each;

class OverflowTest : public DeviceTest {
 protected:
  void TearDown() override { unsetenv("EMBLEM_TEST_OVERFLOW_STEPS"); }
  static void overflow_at(const char* steps) { setenv("EMBLEM_TEST_OVERFLOW_STEPS", steps, 1); }

  Training start(int accumulation, const std::string& extra = "") {
    return {context_,
            pipeline(model_cases().back(), cat("deterministic: true ", extra,
                                               " gradient_accumulation_steps: ", accumulation))};
  }
  StepResult step(Training& run, uint64_t batch) {
    return run.learner.step(run.feed.set(batch_of(batch, 100)), 0);
  }
  std::vector<float> parameters(Training& run) {
    return to_host(context_, run.learner.model().graph().parameters());
  }
};
EMBLEM_TEST_ON_EVERY_DEVICE(OverflowTest);

TEST_P(OverflowTest, TheLastBatchOfAWindowIsDroppedAndTheOthersAreApplied) {
  Training fewer = start(3), run = start(4);
  for (uint64_t batch = 0; batch < 3; ++batch) step(fewer, batch);
  overflow_at("4");
  for (uint64_t batch = 0; batch < 3; ++batch) EXPECT_FALSE(step(run, batch).skipped);
  EXPECT_TRUE(step(run, 3).skipped);
  EXPECT_EQ(parameters(run), parameters(fewer));
  EXPECT_THAT(to_host(context_, run.learner.accumulated()), Each(0.0f));
  EXPECT_EQ(run.learner.skipped_steps(), 1);
  EXPECT_EQ(run.learner.steps(), 4);
}

TEST_P(OverflowTest, AWindowWithoutGradientsUpdatesNothing) {
  Training run = start(2);
  step(run, 0);
  step(run, 1);
  const auto before = parameters(run);
  overflow_at("3,4");
  step(run, 2);
  step(run, 3);
  EXPECT_EQ(parameters(run), before);
  unsetenv("EMBLEM_TEST_OVERFLOW_STEPS");
  step(run, 4);
  EXPECT_EQ(parameters(run), before);
  step(run, 5);
  EXPECT_NE(parameters(run), before);
}

// The sum of a window is in the checkpoint in its middle, and is not in the one at its end.
TEST_P(OverflowTest, CheckpointsContinueTheWindow) {
  overflow_at("4,6");
  for (const int64_t saved : {2, 3, 4, 5}) {
    const TempFolder folder;
    Training whole = start(4), first = start(4), second = start(4);
    for (uint64_t batch = 0; batch < 8; ++batch) step(whole, batch);
    for (int64_t batch = 0; batch < saved; ++batch) step(first, static_cast<uint64_t>(batch));
    load_run(save_run(folder.path("model"), first.learner, {}, first.config), second.learner);
    for (int64_t batch = saved; batch < 8; ++batch) step(second, static_cast<uint64_t>(batch));
    EXPECT_EQ(parameters(second), parameters(whole)) << "saved after step " << saved;
  }
}

TEST_P(OverflowTest, AStepWithoutAccumulationChangesNothing) {
  Training run = start(1);
  step(run, 0);
  const auto before = parameters(run);
  overflow_at("all");
  EXPECT_TRUE(step(run, 1).skipped);
  EXPECT_EQ(parameters(run), before);
  EXPECT_EQ(run.learner.skipped_steps(), 1);
}

TEST(OverflowInFp16, TheLastBatchOfAWindowIsDroppedAndTheOthersAreApplied) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  const Context cuda{.device = Device::kCuda};
  const auto start = [&](int accumulation) {
    return Training(
        cuda, pipeline(model_cases().back(), cat("deterministic: true mixed_precision: \"FP16\" "
                                                 "grad_scaler { init_scale: 1024 } "
                                                 "gradient_accumulation_steps: ",
                                                 accumulation)));
  };
  const auto step = [&](Training& run, uint64_t batch) {
    return run.learner.step(run.feed.set(batch_of(batch, 100)), 0).skipped;
  };
  Training fewer = start(3), run = start(4);
  for (uint64_t batch = 0; batch < 3; ++batch) {
    EXPECT_FALSE(step(fewer, batch));
    EXPECT_FALSE(step(run, batch));
  }
  run.learner.loss_scaler().restore(LossScaleState{.scale = 1e9, .good_steps = 0});
  EXPECT_TRUE(step(run, 3));
  EXPECT_EQ(to_host(cuda, run.learner.model().graph().parameters()),
            to_host(cuda, fewer.learner.model().graph().parameters()));
  EXPECT_THAT(to_host(cuda, run.learner.accumulated()), Each(0.0f));
}

}  // namespace
}  // namespace emblem
