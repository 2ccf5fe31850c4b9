#include "tune/tune.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "core/math/random.h"
#include "data/format/local_input.h"
#include "emblem/error.h"
#include "train/run/trainer.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

using testing::HasSubstr;

class TuneTest : public testing::Test {
 protected:
  // The label is a product of numbers, of which default widths and rates learn little.
  std::string rows(int begin, int end, LabelTask task) const {
    std::string text = "label,a,b,city\n";
    for (int i = begin; i < end; ++i) {
      const auto draw = [&](uint64_t of) {
        return static_cast<double>(random_bits(7, of, static_cast<uint64_t>(i)) >> 11) * 0x1p-53;
      };
      const double a = 4 * draw(1) - 2, b = 4 * draw(2) - 2;
      const int city = static_cast<int>(6 * draw(3));
      const double score = a * b + 0.3 * city + 0.4 * (draw(4) - 0.5);
      std::string label = fmt::format("{:.4f}", score);
      if (task == LabelTask::kBinary) label = score > 0.75 ? "1" : "0";
      if (task == LabelTask::kClasses) label = score < 0.2 ? "low" : score < 1.3 ? "mid" : "high";
      text += fmt::format("{},{:.4f},{:.4f},c{}\n", label, a, b, city);
    }
    return text;
  }

  StarterDraft draft(LabelTask task = LabelTask::kNumber, int count = 600,
                     const std::string& eval_input = "") {
    StarterOptions options;
    options.input = folder_.write("train.csv", rows(0, count, task));
    options.columns.label = "label";
    options.pipeline.train_input = options.input;
    options.pipeline.eval_input = eval_input;
    options.pipeline.model_dir = folder_.path("model");
    return StarterDraft(options);
  }

  // The metric of a training with these settings, on rows that neither it nor a search has seen.
  double unseen(const StarterDraft& draft, PipelineSettings settings) {
    settings.model_dir = folder_.path(cat("model", ++models_));
    Trainer trainer({}, parse_pipeline(draft.text(settings), "p"), {});
    while (trainer.step()) {
    }
    const std::string test = folder_.write("test.csv", rows(10000, 12000, draft.task()));
    RestoredModel model({}, trainer.close().checkpoint, "", {});
    return model.evaluate(test).at(stopping_metric(draft.task()));
  }

  static std::string error_of(const StarterDraft& draft, const TuneOptions& options) {
    try {
      tune({}, draft, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TempFolder folder_;
  int models_ = 0;
};

TEST_F(TuneTest, WhatItFindsIsBetterOnRowsThatItHasNotSeen) {
  const StarterDraft data = draft();
  const Tuned tuned = tune({}, data, {.steps = 8000});
  ASSERT_GT(tuned.trials.size(), 3u);
  EXPECT_EQ(tuned.trials.front().changed, "as chosen by the data");
  EXPECT_NE(data.text(tuned.settings), data.text(data.settings()));
  EXPECT_LE(unseen(data, tuned.settings), unseen(data, data.settings()));
  EXPECT_THAT(tuned.summary(), HasSubstr("mean_squared_error"));
  EXPECT_THAT(tuned.summary(), HasSubstr("  kept: "));
}

TEST_F(TuneTest, EqualArgumentsGiveEqualTrials) {
  const StarterDraft data = draft(LabelTask::kBinary);
  const Tuned one = tune({}, data, {.steps = 2000, .seed = 5});
  const Tuned two = tune({}, data, {.steps = 2000, .seed = 5});
  EXPECT_EQ(one.summary(), two.summary());
  EXPECT_EQ(data.text(one.settings), data.text(two.settings));
  EXPECT_NE(one.summary(), tune({}, data, {.steps = 2000, .seed = 6}).summary());
}

TEST_F(TuneTest, StepsAreBounded) {
  const StarterDraft data = draft(LabelTask::kClasses);
  int64_t most = 0;
  const Tuned tuned =
      tune({}, data, {.steps = 1500, .on_step = [&](int64_t steps, const std::string& trial) {
                        most = std::max(most, steps);
                        EXPECT_FALSE(trial.empty());
                      }});
  EXPECT_LE(most, 1500);
  EXPECT_EQ(tuned.metric, "log_loss");
  int64_t steps = 0;
  for (const TuneTrial& trial : tuned.trials) {
    steps += trial.steps;
    EXPECT_TRUE(std::isfinite(trial.loss)) << trial.changed;
  }
  EXPECT_EQ(steps, most);
}

TEST_F(TuneTest, RowsOfTheUserToEvaluateOnAreNotRead) {
  const StarterDraft data = draft(LabelTask::kNumber, 300, folder_.path("nosuch.csv"));
  const Tuned tuned = tune({}, data, {.steps = 1000});
  EXPECT_THAT(data.text(tuned.settings), HasSubstr("nosuch.csv"));
}

TEST_F(TuneTest, CancellingEndsIt) {
  const StarterDraft data = draft();
  int64_t steps = 0;
  const TuneOptions options{.steps = 100'000,
                            .cancel = CancelToken([&] { return steps >= 30; }),
                            .on_step = [&](int64_t done, const std::string&) { steps = done; }};
  EXPECT_THAT(error_of(data, options), HasSubstr("interrupted: the search ended in trial 1"));
  EXPECT_LT(steps, 100);
}

TEST_F(TuneTest, BudgetsAndDataThatAllowNoSearchAreErrors) {
  const StarterDraft data = draft();
  EXPECT_THAT(error_of(data, {.steps = 10}),
              HasSubstr("a search of 10 training steps; expected 1000 to 1000000000"));
  EXPECT_THAT(error_of(data, {.steps = -5}), HasSubstr("expected 1000"));
  EXPECT_THAT(error_of(data, {.steps = int64_t{1} << 40}), HasSubstr("to 1000000000"));
  EXPECT_THAT(error_of(draft(LabelTask::kNumber, 100), {.steps = 5000}),
              HasSubstr("a search needs at least 200 rows"));
}

}  // namespace
}  // namespace emblem
