#include "bench/judge/verdict.h"

#include <gmock/gmock.h>

#include "bench/judge/suite.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::Not;

SuiteRun run_with(double auc, double rate = 1000, double load = 0) {
  SuiteRun run;
  run.metrics = {{"auc", {auc}}, {"samples_per_second", {rate, "samples/s"}}};
  run.other_load = load;
  return run;
}

SuiteRun failed_run() {
  SuiteRun run;
  run.seed = 7;
  run.failure = "exit status 1: emblem: <no> data & more";
  return run;
}

Baseline expecting(double auc, double rate = 0) {
  Baseline baseline;
  baseline.metrics = {{"auc", {auc, 0.01}}};
  if (rate > 0)
    baseline.metrics.push_back({"samples_per_second", {rate, 0.1, ThresholdKind::kRelative}});
  return baseline;
}

Verdict judged(const std::vector<SuiteRun>& runs, const Baseline& baseline) {
  return judge("a.config", runs, &baseline, {}).verdict;
}

TEST(Verdict, MeansAreComparedWithTheThreshold) {
  EXPECT_EQ(judged({run_with(0.75)}, expecting(0.745)), Verdict::kBalanced);
  EXPECT_EQ(judged({run_with(0.75)}, expecting(0.73)), Verdict::kBetter);
  EXPECT_EQ(judged({run_with(0.75)}, expecting(0.77)), Verdict::kWorse);
  EXPECT_EQ(judged({run_with(0.75), run_with(0.79)}, expecting(0.77)), Verdict::kBalanced);
}

TEST(Verdict, BetterInOneMetricAndWorseInAnotherIsMixed) {
  EXPECT_EQ(judged({run_with(0.75, 1000)}, expecting(0.7, 2000)), Verdict::kMixed);
}

TEST(Verdict, LowerIsBetterWhereTheBaselineSaysSo) {
  Baseline baseline;
  baseline.metrics = {{"auc", {0.7, 0.01, ThresholdKind::kAbsolute, Better::kLower}}};
  EXPECT_EQ(judged({run_with(0.75)}, baseline), Verdict::kWorse);
  EXPECT_EQ(judged({run_with(0.65)}, baseline), Verdict::kBetter);
}

TEST(Verdict, ThreeRunsWithoutASignificantDifferenceAreBalanced) {
  EXPECT_EQ(judged({run_with(0.9), run_with(0.75), run_with(0.6)}, expecting(0.77)),
            Verdict::kBalanced);
  EXPECT_EQ(judged({run_with(0.751), run_with(0.75), run_with(0.749)}, expecting(0.77)),
            Verdict::kWorse);
}

TEST(Verdict, AHalfOfFailedRunsIsUnreliable) {
  EXPECT_EQ(judged({run_with(0.9), failed_run()}, expecting(0.7)), Verdict::kUnreliable);
  EXPECT_EQ(judged({failed_run()}, expecting(0.7)), Verdict::kUnreliable);
  EXPECT_EQ(judged({run_with(0.75), run_with(0.75), failed_run()}, expecting(0.75)),
            Verdict::kBalanced);
  EXPECT_EQ(judge("a", {failed_run(), run_with(1)}, nullptr, {}).verdict, Verdict::kUnreliable);
}

TEST(Verdict, AMetricThatNoRunReportsIsUnreliable) {
  Baseline baseline;
  baseline.metrics = {{"recall@5", {0.2, 0.01}}};
  const auto outcome = judge("a", {run_with(0.75)}, &baseline, {});
  EXPECT_EQ(outcome.verdict, Verdict::kUnreliable);
  EXPECT_THAT(outcome.reason, HasSubstr("recall@5"));
}

TEST(Verdict, WithoutABaselineNothingFails) {
  const auto outcome = judge("a", {run_with(0.75)}, nullptr, {});
  EXPECT_EQ(outcome.verdict, Verdict::kNoBaseline);
  EXPECT_FALSE(fails_the_suite(outcome.verdict));
}

TEST(Verdict, SpeedIsComparedOnlyOnAMachineLikeThatOfTheBaseline) {
  Baseline baseline = expecting(0.75, 2000);
  baseline.measured_on = Machine{.cpu = "another", .cores = 64};
  const auto outcome = judge("a", {run_with(0.75, 1000)}, &baseline, Machine{.cpu = "this"});
  EXPECT_EQ(outcome.verdict, Verdict::kBalanced);
  EXPECT_THAT(suite_text({outcome}, Colour::kNone), HasSubstr("baseline is from another machine"));
}

TEST(Verdict, OtherProcessesRelaxTheThresholdOfSpeed) {
  EXPECT_EQ(judged({run_with(0.75, 1000)}, expecting(0.75, 1500)), Verdict::kWorse);
  EXPECT_EQ(judged({run_with(0.75, 1000, 0.3)}, expecting(0.75, 1500)), Verdict::kBalanced);
  EXPECT_EQ(judged({run_with(0.75, 1000, 0.3)}, expecting(0.75, 4000)), Verdict::kWorse);
  EXPECT_EQ(judged({run_with(0.70, 1000, 0.3)}, expecting(0.75)), Verdict::kWorse);
}

TEST(SuiteText, ShowsMeanSpreadIntervalAndBaseline) {
  Baseline baseline = expecting(0.75);
  const auto outcome =
      judge("a.config", {run_with(0.74), run_with(0.75), run_with(0.76)}, &baseline, {});
  const std::string text = suite_text({outcome}, Colour::kNone);
  EXPECT_THAT(text, HasSubstr("BALANCED  a.config  (3 runs)"));
  EXPECT_THAT(text, HasSubstr("0.725159 to 0.774841"));
  EXPECT_THAT(text, HasSubstr("0.75 ± 0.01"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(suite_text({outcome}, Colour::kAnsi), HasSubstr("\033[1mBALANCED\033[0m"));
  EXPECT_EQ(suite_summary({outcome, outcome}), "2 pipelines: 2 BALANCED");
}

TEST(Junit, FailuresErrorsAndSkippedAreCountedAndEscaped) {
  Baseline baseline = expecting(0.75);
  const auto worse = judge("worse.config", {run_with(0.5)}, &baseline, {});
  const auto unreliable = judge("a\"<b>.config", {failed_run()}, &baseline, {});
  ConfigOutcome skipped;
  skipped.config = "skipped.config";
  skipped.verdict = Verdict::kSkipped;
  const std::string xml = junit_xml({worse, unreliable, skipped});
  EXPECT_THAT(xml, HasSubstr(R"(tests="3" failures="1" errors="1" skipped="1")"));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"WORSE than the baseline\">"));
  EXPECT_THAT(xml, HasSubstr("name=\"a&quot;&lt;b&gt;.config\""));
  EXPECT_THAT(xml, HasSubstr("&lt;no&gt; data &amp; more"));
}

}  // namespace
}  // namespace emblem
