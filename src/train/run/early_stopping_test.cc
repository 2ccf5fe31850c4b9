#include "train/run/early_stopping.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

EarlyStopping watch(const std::string& settings) {
  config::EarlyStopping message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(settings, &message));
  return EarlyStopping(message);
}

TEST(EarlyStopping, StopsAfterPatienceEvaluationsWithoutAGain) {
  EarlyStopping stopping = watch("patience: 2 min_delta: 0.01");
  EXPECT_TRUE(stopping.observe(0.70, 10));
  EXPECT_FALSE(stopping.observe(0.705, 20)) << "less than min_delta";
  EXPECT_TRUE(stopping.observe(0.72, 30)) << "a gain starts the count again";
  EXPECT_FALSE(stopping.observe(NAN, 40));
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_FALSE(stopping.observe(0.60, 50));
  EXPECT_TRUE(stopping.should_stop());
  EXPECT_EQ(stopping.state().best, 0.72);
  EXPECT_EQ(stopping.state().best_step, 30);
}

TEST(EarlyStopping, AMetricOfTheCallerImprovesAsHigherIsBetterSays) {
  EarlyStopping lower = watch("metric: 'mine' higher_is_better: false");
  EXPECT_TRUE(lower.observe(0.6, 10));
  EXPECT_TRUE(lower.observe(0.5, 20));
  EXPECT_FALSE(lower.observe(0.7, 30));
  EarlyStopping higher = watch("metric: 'mine' higher_is_better: true");
  EXPECT_TRUE(higher.observe(0.6, 10));
  EXPECT_FALSE(higher.observe(0.5, 20));
}

TEST(EarlyStopping, TakesALowerLogLossForAGain) {
  EarlyStopping stopping = watch("metric: 'log_loss' patience: 1");
  EXPECT_TRUE(stopping.observe(0.6, 10));
  EXPECT_TRUE(stopping.observe(0.5, 20));
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_FALSE(stopping.observe(0.55, 30));
  EXPECT_TRUE(stopping.should_stop());
}

TEST(EarlyStopping, ContinuesFromASavedStateOfTheSameMetricOnly) {
  EarlyStopping first = watch("patience: 2"), same = watch("patience: 2"),
                other = watch("metric: 'log_loss' patience: 2");
  first.observe(0.7, 10);
  first.observe(0.6, 20);
  same.restore(first.state());
  other.restore(first.state());
  same.observe(0.65, 30);
  EXPECT_TRUE(same.should_stop());
  EXPECT_FALSE(other.state().has_best);
  EXPECT_TRUE(other.observe(0.9, 30));
}

TEST(EarlyStopping, TakesTheStateOfAnOlderProgramForThatOfItsMetric) {
  EarlyStopping stopping = watch("patience: 2");
  stopping.restore({.has_best = true, .best = 0.7, .best_step = 5, .bad_evaluations = 1});
  EXPECT_EQ(stopping.state().metric, "auc");
  EXPECT_FALSE(stopping.observe(0.6, 10));
  EXPECT_TRUE(stopping.should_stop());
}

TEST(StopAt, IsReachedInTheDirectionOfItsMetric) {
  EXPECT_TRUE(parse_stop_at("auc=0.8").reached(0.81));
  EXPECT_FALSE(parse_stop_at("auc=0.8").reached(0.79));
  EXPECT_TRUE(parse_stop_at("normalized_entropy=0.8").reached(0.79));
  EXPECT_FALSE(parse_stop_at("log_loss=0.45").reached(0.46));
  EXPECT_FALSE(parse_stop_at("log_loss=0.45").reached(NAN));
}

TEST(StopAt, RefusesOtherText) {
  for (const char* text : {"auc", "auc=", "=0.8", "auc=high", "auc=nan", "auc=inf", "auc=0.8x"}) {
    EXPECT_THAT([&] { parse_stop_at(text, "--until"); },
                ThrowsMessage<Error>(
                    HasSubstr("--until \"" + std::string(text) + "\" is not METRIC=VALUE")));
  }
}

}  // namespace
}  // namespace emblem
