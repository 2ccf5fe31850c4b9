#include "bench/judge/baseline.h"

#include <gmock/gmock.h>

#include "bench/judge/baseline_update.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

std::string parse_error(const std::string& json) {
  try {
    parse_baselines(json, "b.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The form of TorchEasyRec's tzrec/benchmark/configs/base_eval_metric.json: thresholds for all
// metrics or for each.
constexpr char kTorchEasyRec[] = R"({
  "tzrec/benchmark/configs/taobao/ple.config": {
    "label": {"auc_ctr": 0.634, "auc_cvr": 0.740},
    "threshold": {"auc_ctr": 0.002, "auc_cvr": 0.040},
    "run_cnt": 5
  },
  "tzrec/benchmark/configs/criteo/deepfm.config": {
    "label": {"auc": 0.784}, "threshold": 0.005, "run_cnt": 1
  }
})";

TEST(Baseline, TorchEasyRecsFileIsReadUnchanged) {
  const auto baselines = parse_baselines(kTorchEasyRec, "base_eval_metric.json");
  ASSERT_EQ(baselines.size(), 2u);
  const Baseline& ple = baselines[0];
  EXPECT_EQ(ple.runs, 5);
  EXPECT_EQ(find_named(ple.metrics, "auc_cvr")->value, 0.740);
  EXPECT_EQ(find_named(ple.metrics, "auc_cvr")->margin(), 0.040);
  EXPECT_EQ(find_named(ple.metrics, "auc_ctr")->margin(), 0.002);
  EXPECT_EQ(find_named(baselines[1].metrics, "auc")->margin(), 0.005);
  EXPECT_EQ(find_named(baselines[1].metrics, "auc")->better, Better::kHigher);
}

TEST(Baseline, AMetricMayHaveItsOwnDirectionAndThreshold) {
  const auto baselines = parse_baselines(R"({"a.config": {
      "label": {"auc": 0.8, "log_loss": {"value": 0.4, "threshold": 0.01},
                "samples_per_second": {"value": 1000, "relative_threshold": 0.1},
                "score": {"value": 3, "better": "lower"}},
      "threshold": 0.002, "set": ["a=1"], "timeout_s": 60, "optional_data": true,
      "measured_on": {"cpu": "X", "cores": 2}, "note": "by hand"}})",
                                         "b.json");
  const Baseline& baseline = baselines.at(0);
  const auto metric = [&](const char* name) { return *find_named(baseline.metrics, name); };
  EXPECT_EQ(metric("log_loss").better, Better::kLower);
  EXPECT_EQ(metric("log_loss").margin(), 0.01);
  EXPECT_EQ(metric("samples_per_second").margin(), 100);
  EXPECT_EQ(metric("score").better, Better::kLower);
  EXPECT_EQ(metric("score").margin(), 0.002);
  EXPECT_EQ(baseline.overrides, std::vector<std::string>{"a=1"});
  EXPECT_EQ(baseline.timeout_seconds, 60);
  EXPECT_TRUE(baseline.optional_data);
  Machine machine;
  machine.cpu = "X";
  machine.cores = 2;
  EXPECT_TRUE(baseline.comparable_on(machine));
  machine.cores = 4;
  EXPECT_FALSE(baseline.comparable_on(machine));
}

TEST(Baseline, ErrorsNameTheFileTheConfigAndTheField) {
  EXPECT_THAT(parse_error("[1]"), HasSubstr("b.json is [1]; expected an object of baselines"));
  EXPECT_THAT(parse_error("{"), HasSubstr("b.json is not JSON"));
  EXPECT_THAT(parse_error(R"({"a": {"label": {}}})"), HasSubstr("\"a\" has no \"label\""));
  EXPECT_THAT(parse_error(R"({"a": {"label": {"auc": 0.8}}})"),
              HasSubstr("has no \"threshold\" for \"auc\""));
  EXPECT_THAT(parse_error(R"({"a": {"label": {"auc": 1}, "threshold": {"acu": 1}}})"),
              HasSubstr("has no entry for \"auc\""));
  EXPECT_THAT(parse_error(R"({"a": {"label": {"auc": 1}, "threshold": -1}})"),
              HasSubstr("expected a number of at least 0"));
  EXPECT_THAT(parse_error(R"({"a": {"label": {"auc": 1}, "treshold": 1}})"),
              HasSubstr("did you mean \"threshold\"?"));
  EXPECT_THAT(parse_error(R"({"a": {"label": {"auc": 1}, "threshold": 1, "run_cnt": 0}})"),
              HasSubstr("run_cnt is 0"));
  EXPECT_THAT(parse_error(R"({"a": {"label": {"auc": {"value": 1, "better": "up"}}}})"),
              HasSubstr("expected \"higher\" or \"lower\""));
}

TEST(Baseline, ConfigsAreFoundByPathOrSuffix) {
  const auto baselines = parse_baselines(kTorchEasyRec, "b.json");
  EXPECT_NE(find_baseline(baselines, "./tzrec/benchmark/configs/taobao/ple.config"), nullptr);
  EXPECT_NE(find_baseline(baselines, "/src/tzrec/benchmark/configs/taobao/ple.config"), nullptr);
  EXPECT_EQ(find_baseline(baselines, "taobao/ple.config"), nullptr);
  EXPECT_EQ(find_baseline(baselines, "xtzrec/benchmark/configs/taobao/ple.config"), nullptr);
}

ConfigOutcome outcome_of(const std::string& config, double auc, double rate) {
  std::vector<SuiteRun> runs(3);
  for (SuiteRun& run : runs)
    run.metrics = {{"auc", {auc}}, {"samples_per_second", {rate, "samples/s"}}};
  return judge(config, runs, nullptr, {});
}

TEST(BaselineUpdate, KeepsTheFormAndThresholdsOfExistingEntries) {
  const auto update = update_baselines(
      kTorchEasyRec, {outcome_of("tzrec/benchmark/configs/criteo/deepfm.config", 0.7912345678, 5)},
      {});
  ASSERT_EQ(update.changes.size(), 1u);
  EXPECT_EQ(update.changes[0].before, 0.784);
  EXPECT_EQ(update.changes[0].after, 0.791235);
  const auto baselines = parse_baselines(update.json, "new");
  ASSERT_EQ(baselines.size(), 2u);
  EXPECT_EQ(find_named(baselines[1].metrics, "auc")->value, 0.791235);
  EXPECT_EQ(find_named(baselines[1].metrics, "auc")->margin(), 0.005);
  EXPECT_EQ(baselines[1].metrics.size(), 1u);
  EXPECT_EQ(find_named(baselines[0].metrics, "auc_ctr")->value, 0.634);
  EXPECT_THAT(to_text(update.changes), HasSubstr("0.784  0.791235  +0.92 %"));
}

TEST(BaselineUpdate, ANewPipelineGetsAllItsMetricsAndTheMachine) {
  Machine machine;
  machine.cpu = "X";
  machine.cores = 2;
  const auto update = update_baselines("{}", {outcome_of("new.config", 0.8, 1000)}, machine);
  const auto baselines = parse_baselines(update.json, "new");
  ASSERT_EQ(baselines.size(), 1u);
  EXPECT_EQ(baselines[0].runs, 3);
  EXPECT_EQ(find_named(baselines[0].metrics, "auc")->margin(), 0.002);
  EXPECT_NEAR(find_named(baselines[0].metrics, "samples_per_second")->margin(), 100, 1e-9);
  EXPECT_TRUE(baselines[0].comparable_on(machine));
}

TEST(BaselineUpdate, AnUnreliableOutcomeChangesNothing) {
  ConfigOutcome outcome = outcome_of("new.config", 0.8, 1000);
  outcome.verdict = Verdict::kUnreliable;
  EXPECT_EQ(update_baselines("{}", {outcome}, {}).json, "{}\n");
}

}  // namespace
}  // namespace emblem
