#include "bench/train/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report/sweeps.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BenchResult result_of(const TrainSetting& setting, double rate) {
  BenchResult result;
  result.benchmark = "train";
  result.name = cat("dlrm-b", setting.batch);
  result.program = "emblem";
  result.settings = {{"batch", setting.batch},
                     {"dim", setting.dim},
                     {"threads", int64_t{setting.threads}},
                     {"precision", setting.precision.empty() ? "fp32" : setting.precision},
                     {"device_bytes", setting.device_bytes}};
  result.metrics = {
      {"samples_per_second", {rate, "samples/s", Better::kHigher}},
      {"step_seconds", {static_cast<double>(setting.batch) / rate, "s", Better::kLower}}};
  return result;
}

// Saturates at 1 M samples/s; half of that at a batch of 64.
double saturating(const TrainSetting& setting) {
  return 1e6 * static_cast<double>(setting.batch) / static_cast<double>(setting.batch + 64);
}

TEST(Knee, IsTheBatchFromWhichDoublingGainsLessThanFivePercent) {
  EXPECT_EQ(find_knee({{1, 10}, {2, 20}, {4, 24}, {8, 25}, {16, 25}}), 4);
  EXPECT_EQ(find_knee({{16, 25}, {4, 24}, {8, 25}, {1, 10}, {2, 20}}), 4);  // in any order
}

TEST(Knee, ADipIsNotAKnee) { EXPECT_EQ(find_knee({{1, 10}, {2, 10.1}, {4, 20}, {8, 20}}), 4); }

TEST(Knee, StepsOtherThanDoublingsAreWeightedByTheirSize) {
  // 20 % in four doublings is less than 5 % each.
  EXPECT_EQ(find_knee({{1, 10}, {16, 12}}), 1);
  EXPECT_EQ(find_knee({{1, 10}, {16, 13}}), std::nullopt);
}

TEST(Knee, IsUnknownWhileLargerBatchesGain) {
  EXPECT_EQ(find_knee({{1, 10}, {2, 20}, {4, 40}}), std::nullopt);
  EXPECT_EQ(find_knee({{1, 10}}), std::nullopt);
  EXPECT_EQ(find_knee({}), std::nullopt);
}

TEST(TrainSweep, SettingsAreAllCombinationsAndTheBatchVariesFastest) {
  const auto settings = train_settings({.batches = {1, 2}, .threads = {1, 2}});
  std::vector<std::string> texts;
  for (const TrainSetting& setting : settings) texts.push_back(setting.text());
  EXPECT_THAT(texts, ElementsAre("batch 1, 1 threads", "batch 2, 1 threads", "batch 1, 2 threads",
                                 "batch 2, 2 threads"));
  EXPECT_EQ(train_settings({}).size(), 1u);
}

TEST(TrainSweep, RecommendsTheKneeWithAReason) {
  const TrainSweep sweep =
      sweep_training(train_settings({.batches = {16, 64, 256, 1024, 4096}, .dims = {16}}),
                     [](const TrainSetting& s) { return result_of(s, saturating(s)); });
  ASSERT_EQ(sweep.advice.size(), 1u);
  const BenchResult& chosen = sweep.results[sweep.advice[0].recommended];
  EXPECT_EQ(chosen.name, "dlrm-b1024");
  EXPECT_EQ(sweep.advice[0].knee, 1024);
  EXPECT_EQ(std::get<int64_t>(*find_named(chosen.settings, "knee_batch")), 1024);
  EXPECT_THAT(std::get<std::string>(*find_named(chosen.settings, "advice")),
              HasSubstr("doubling the batch beyond 1024 gains less than 5 %"));
  const std::string fragment = train_fragment(chosen, "why");
  EXPECT_THAT(fragment, HasSubstr("# why\n"));
  EXPECT_THAT(fragment, HasSubstr("batch_size: 1024"));
  EXPECT_THAT(fragment, HasSubstr("mixed_precision: \"FP32\""));
}

TEST(TrainSweep, PrefersFewThreadsAndFp32WithinThreePercent) {
  const TrainAxes axes{.batches = {1024, 2048}, .precisions = {"fp32", "bf16"}, .threads = {4, 2}};
  const auto recommended = [&](double bf16, double two_threads) {
    const TrainSweep sweep = sweep_training(train_settings(axes), [&](const TrainSetting& s) {
      return result_of(s, saturating(s) * (s.precision == "bf16" ? bf16 : 1) *
                              (s.threads == 2 ? two_threads : 1));
    });
    const BenchResult& chosen = sweep.results[sweep.advice.at(0).recommended];
    return cat(std::get<std::string>(*find_named(chosen.settings, "precision")), " ",
               std::get<int64_t>(*find_named(chosen.settings, "threads")));
  };
  EXPECT_EQ(recommended(1.01, 0.99), "fp32 2");
  EXPECT_EQ(recommended(1.5, 0.99), "bf16 2");
  EXPECT_EQ(recommended(1.5, 0.5), "bf16 4");
}

TEST(TrainSweep, ASettingThatDoesNotFitIsRecordedAndTheOthersAreMeasured) {
  const TrainSweep sweep =
      sweep_training(train_settings({.batches = {1, 2, 4}}), [](const TrainSetting& s) {
        if (s.batch == 2) throw Error(ErrorCode::kOutOfMemory, "too large");
        if (s.batch == 4) throw std::bad_alloc();
        return result_of(s, 1);
      });
  EXPECT_EQ(sweep.results.size(), 1u);
  EXPECT_THAT(sweep.failed, ElementsAre("batch 2: too large", "batch 4: out of host memory"));
  EXPECT_THROW(sweep_training(train_settings({.batches = {1, 2}}),
                              [](const TrainSetting&) -> BenchResult { throw std::bad_alloc(); }),
               Error);
}

TEST(TrainSweep, OtherErrorsAbort) {
  EXPECT_THROW(sweep_training(train_settings({.batches = {1, 2}}),
                              [](const TrainSetting&) -> BenchResult {
                                throw Error(ErrorCode::kCorruption, "broken file");
                              }),
               Error);
}

TEST(TrainSweep, WorkloadsAreNotComparedWithEachOther) {
  const TrainSweep sweep =
      sweep_training(train_settings({.batches = {1024, 2048}, .dims = {16, 128}}),
                     [](const TrainSetting& s) { return result_of(s, saturating(s)); });
  EXPECT_EQ(sweep.advice.size(), 2u);
}

TEST(TrainSweep, IsDrawnAsAHeatMapAndAsLinesOverTheBatch) {
  const TrainSweep sweep =
      sweep_training(train_settings({.batches = {64, 256, 1024}, .threads = {1, 2}}),
                     [](const TrainSetting& s) { return result_of(s, saturating(s)); });
  const auto maps = sweep_maps(sweep.results);
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps[0].map.x_label, "batch (samples)");
  EXPECT_EQ(maps[0].map.y_label, "threads (threads)");
  const auto charts = batch_charts(sweep.results);
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_EQ(charts[0].lines.size(), 2u);
}

}  // namespace
}  // namespace emblem
