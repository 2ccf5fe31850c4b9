#include "train/learner/lookup_report.h"

#include <gmock/gmock.h>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string logged(const std::vector<FeatureLookups>& lookups, LookupPass pass) {
  testing::internal::CaptureStderr();
  log_missing_values(lookups, pass);
  return testing::internal::GetCapturedStderr();
}

TEST(LookupReport, SharesAreOfTheValues) {
  EXPECT_EQ(missing_share({.values = 8, .missing = 2}), 0.25);
  EXPECT_EQ(missing_share({}), 0.0);
}

TEST(LookupReport, CountsAddUpByFeatureAndTable) {
  std::vector<FeatureLookups> sum;
  add_lookups({{"a", "deep", {10, 1}}, {"b", "deep", {10, 0}}}, sum);
  add_lookups({{"a", "deep", {10, 2}}, {"a", "wide", {10, 5}}}, sum);
  ASSERT_EQ(sum.size(), 3u);
  EXPECT_EQ(sum[0].counts, (LookupCounts{20, 3}));
  EXPECT_EQ(sum[1].counts, (LookupCounts{10, 0}));
  EXPECT_EQ(sum[2].counts, (LookupCounts{10, 5}));
}

TEST(LookupReport, AFeatureIsJudgedByTheTableThatLacksTheMost) {
  const std::vector<FeatureLookups> lookups = {
      {"a", "deep", {10, 1}}, {"b", "deep", {10, 0}}, {"a", "wide", {10, 5}}};
  const std::vector<FeatureLookups> features = by_feature(lookups);
  ASSERT_EQ(features.size(), 2u);
  EXPECT_EQ(features[0].table, "wide");
  EXPECT_THAT(features_to_report(lookups), ElementsAre("a"));
}

TEST(LookupReport, IsOneLineWithTheLargestSharesFirst) {
  std::vector<FeatureLookups> lookups;
  for (int i = 0; i < 12; ++i) lookups.push_back({cat("f", i), "t", {1000, i}});
  EXPECT_EQ(
      logged(lookups, LookupPass::kEvaluation),
      "emblem: values without a row in their table: f11 1.1 %, f10 1.0 %, f9 0.9 %, f8 0.8 %, "
      "f7 0.7 %, f6 0.6 %, f5 0.5 %, f4 0.4 % and 3 more\n");
}

TEST(LookupReport, LargeSharesAreWarnings) {
  EXPECT_THAT(logged({{"a", "t", {100, 10}}}, LookupPass::kEvaluation), Not(HasSubstr("warning")));
  EXPECT_THAT(logged({{"a", "t", {100, 11}}}, LookupPass::kEvaluation),
              HasSubstr("warning: values without a row in their table: a 11.0 %; were they written "
                        "differently in the training data?"));
  EXPECT_THAT(logged({{"a", "t", {100, 11}}}, LookupPass::kTraining),
              HasSubstr("warning: training: values without a row in their table: a 11.0 %; see "
                        "frequency_admission_strategy and max_capacity"));
  EXPECT_EQ(logged({{"a", "t", {100, 0}}}, LookupPass::kEvaluation), "");
}

}  // namespace
}  // namespace emblem
