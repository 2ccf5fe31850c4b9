#include "train/run/intervals.h"

#include <gtest/gtest.h>

#include "config/load/load.h"

namespace emblem {
namespace {

Intervals intervals(const std::string& train, int64_t max_steps = 0,
                    const std::string& eval = "eval_input_path: 'x' ") {
  return {parse_pipeline(eval + "train_config { " + train + " }", "test"), max_steps};
}

StepEnd batch(bool last_in_epoch = false, int64_t next_epoch = 0) {
  Batch batch;
  batch.last_in_epoch = last_in_epoch;
  batch.next.epoch = next_epoch;
  return end_of(batch);
}

TEST(Intervals, AnEvaluationComesWithEachCheckpointUnlessItHasItsOwnInterval) {
  const Intervals shared = intervals("save_checkpoints_steps: 10");
  EXPECT_TRUE(shared.after(20, batch()).checkpoint);
  EXPECT_TRUE(shared.after(20, batch()).evaluation);
  EXPECT_FALSE(shared.after(21, batch()).evaluation);
  const Intervals own = intervals("save_checkpoints_steps: 10 eval_steps: 4");
  EXPECT_FALSE(own.after(10, batch()).evaluation);
  EXPECT_TRUE(own.after(4, batch()).evaluation);
  EXPECT_FALSE(own.after(4, batch()).checkpoint);
}

TEST(Intervals, NothingIsEvaluatedWithoutData) {
  EXPECT_FALSE(intervals("eval_steps: 4", 0, "").after(4, batch()).evaluation);
}

TEST(Intervals, EpochsAreCountedAtTheirLastBatch) {
  const Intervals by_epoch =
      intervals("save_checkpoints_steps: 0 save_checkpoints_epochs: 2 eval_epochs: 1");
  EXPECT_FALSE(by_epoch.after(7, batch(false, 2)).checkpoint);
  EXPECT_FALSE(by_epoch.after(8, batch(true, 1)).checkpoint);
  EXPECT_TRUE(by_epoch.after(8, batch(true, 1)).evaluation);
  EXPECT_TRUE(by_epoch.after(16, batch(true, 2)).checkpoint);
}

TEST(Intervals, EpochsReplaceTheDefaultNumberOfStepsOfCheckpoints) {
  const Intervals by_epoch = intervals("save_checkpoints_epochs: 1");
  EXPECT_FALSE(by_epoch.after(1000, batch()).checkpoint);
  EXPECT_TRUE(by_epoch.after(1234, batch(true, 1)).checkpoint);
  const Intervals both = intervals("save_checkpoints_epochs: 1 save_checkpoints_steps: 1000");
  EXPECT_TRUE(both.after(1000, batch()).checkpoint);
  EXPECT_TRUE(intervals("").after(1000, batch()).checkpoint);
}

TEST(Intervals, CheckpointsOfAStreamAreDueWhenItsTimePassesAMultiple) {
  const Intervals by_time =
      intervals("save_checkpoints_steps: 0 save_checkpoints_timestamp_interval: 60");
  StepEnd later = batch();
  later.unix_ms = 120'000;
  EXPECT_TRUE(by_time.after(7, later, 119'999).checkpoint);
  EXPECT_TRUE(by_time.after(7, later, 119'999).evaluation);
  EXPECT_FALSE(by_time.after(8, later, 120'000).checkpoint);
  EXPECT_FALSE(by_time.after(1, later, 0).checkpoint) << "there was none before";
}

TEST(Intervals, LogsAndDeltasHaveTheirOwn) {
  const Intervals both = intervals("log_step_count_steps: 3 delta_steps: 5");
  EXPECT_TRUE(both.after(3, batch()).log);
  EXPECT_FALSE(both.after(3, batch()).delta);
  EXPECT_TRUE(both.after(5, batch()).delta);
  EXPECT_FALSE(intervals("").after(5, batch()).delta);
}

TEST(Intervals, KnowTheLastStep) {
  EXPECT_TRUE(intervals("num_steps: 30").ends_after(30, batch()));
  EXPECT_FALSE(intervals("num_steps: 30").ends_after(29, batch(true, 5)));
  EXPECT_TRUE(intervals("num_steps: 30", 20).ends_after(20, batch())) << "--max-steps";
  EXPECT_TRUE(intervals("num_epochs: 2").ends_after(99, batch(true, 2)));
  EXPECT_FALSE(intervals("num_epochs: 2").ends_after(99, batch(true, 1)));
  EXPECT_EQ(intervals("num_steps: 30").steps_left(10), 20);
  EXPECT_EQ(intervals("num_steps: 30").steps_left(40), 0);
  EXPECT_EQ(intervals("num_epochs: 2").steps_left(40), -1);
}

}  // namespace
}  // namespace emblem
