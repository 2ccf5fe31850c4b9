#include "bench/report/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report/history_charts.h"
#include "bench/report/report.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BenchResult suite_result(const std::string& verdict, double auc) {
  BenchResult result;
  result.benchmark = "suite";
  result.name = "configs/dlrm.config";
  result.program = "emblem 0.1.0";
  result.settings = {
      {"verdict", verdict},   {"runs", int64_t{3}},
      {"failed", int64_t{1}}, {"failures", std::vector<std::string>{"seed 2: timed out"}},
      {"baseline_auc", 0.79}, {"margin_auc", 0.002}};
  Measure measure{auc, "", Better::kHigher};
  measure.interval = Interval{auc - 0.001, auc + 0.001};
  result.metrics = {{"auc", measure}, {"samples_per_second", {1e5, "samples/s", Better::kHigher}}};
  return result;
}

TEST(Verdicts, AResultIsShownWithItsBaseline) {
  const auto blocks = verdict_blocks({suite_result("WORSE", 0.78)});
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].tone, Tone::kBad);
  EXPECT_EQ(blocks[0].runs, "3 runs, 1 failed");
  ASSERT_EQ(blocks[0].rows.size(), 2u);
  EXPECT_EQ(blocks[0].rows[0].measured, "0.7800 ± 0.0010");
  EXPECT_EQ(blocks[0].rows[0].difference, "−0.0100");
  EXPECT_EQ(blocks[0].rows[0].tone, Tone::kBad);
  EXPECT_EQ(blocks[0].rows[1].baseline, "");
}

TEST(Verdicts, DifferencesWithinTheMarginAreNeutralAndOthersAreNot) {
  EXPECT_EQ(verdict_blocks({suite_result("BALANCED", 0.7905)})[0].rows[0].tone, Tone::kNeutral);
  EXPECT_EQ(verdict_blocks({suite_result("BETTER", 0.80)})[0].rows[0].tone, Tone::kGood);
  EXPECT_TRUE(verdict_blocks({BenchResult{}}).empty());
}

TEST(Verdicts, AreInThePageAndInTheMarkdown) {
  Report report;
  report.results = {suite_result("WORSE", 0.78)};
  EXPECT_THAT(report_html(report), HasSubstr("<span class='verdict bad'>WORSE</span>"));
  EXPECT_THAT(report_html(report), HasSubstr("seed 2: timed out"));
  EXPECT_THAT(report_markdown(report), HasSubstr("### configs/dlrm.config: WORSE"));
}

BenchResult timed(const std::string& program, double seconds, double spread) {
  BenchResult result;
  result.benchmark = "train";
  result.name = "dlrm";
  result.program = program;
  result.metrics = {{"step_seconds", {seconds, "s", Better::kLower, spread}}};
  return result;
}

TEST(Changes, AreNamedByDirectionAndSize) {
  const auto change = [](double before, double after, double spread) {
    return change_rows({timed("emblem 0.1.0", before, spread)}, {timed("emblem 0.2.0", after, 0)})
        .at(0);
  };
  EXPECT_EQ(change(4, 1, 0.1).change, "4.00x better");
  EXPECT_EQ(change(4, 1, 0.1).tone, Tone::kGood);
  EXPECT_EQ(change(1, 1.25, 0.1).change, "20 % worse");
  EXPECT_EQ(change(1, 1.25, 0.1).tone, Tone::kBad);
  EXPECT_EQ(change(1, 1.25, 0).tone, Tone::kNeutral) << "measured once";
  EXPECT_EQ(change(1, 1.25, 0.3).change, "20 % worse, within the spread");
  EXPECT_EQ(change(1, 1.25, 0.3).tone, Tone::kNeutral);
  EXPECT_EQ(change(1, 1, 0).change, "the same");
}

TEST(Changes, SamplesAreTestedForSignificance) {
  BenchResult before = timed("emblem 0.1.0", 1.0, 0), after = timed("emblem 0.2.0", 0.8, 0);
  before.metrics[0].second.samples = {0.99, 1.0, 1.01, 1.0};
  after.metrics[0].second.samples = {0.79, 0.8, 0.81, 0.8};
  EXPECT_EQ(change_rows({before}, {after}).at(0).change, "25 % better, p < 0.001");
  EXPECT_EQ(change_rows({before}, {after}).at(0).tone, Tone::kGood);
  after.metrics[0].second.samples = {0.3, 1.3, 0.9, 0.7};
  EXPECT_EQ(change_rows({before}, {after}).at(0).change, "25 % better, not significant");
  EXPECT_EQ(change_rows({before}, {after}).at(0).tone, Tone::kNeutral);
}

TEST(Changes, OnlyCommonResultsAreCompared) {
  EXPECT_TRUE(change_rows({timed("pytorch 2.4", 1, 0)}, {timed("emblem 0.2.0", 2, 0)}).empty());
  BenchResult other = timed("emblem 0.1.0", 1, 0);
  other.name = "dcn";
  EXPECT_TRUE(change_rows({other}, {timed("emblem 0.2.0", 2, 0)}).empty());
}

TEST(AdviceTest, IsTheTextThatBenchmarksGive) {
  BenchResult result = timed("emblem", 1, 0);
  result.settings = {{"advice", std::string("use less")}};
  const auto found = advice_of({result, timed("emblem", 1, 0)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text, "use less");
}

TEST(History, EntriesBecomeATrendOfEachMetric) {
  const TempFolder folder;
  std::string lines;
  for (const char* revision : {"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"})
    lines += cat(R"({"date": "2026-11-15T10:00:00Z", "program": "emblem", "environment": "e", )",
                 R"("revision": ")", revision,
                 R"(", "results": [{"schema": 1, "benchmark": "suite", "name": "n", "program": )",
                 R"("emblem", "metrics": {"auc": {"value": 0.79}}}]})", "\n");
  const std::string path = folder.write("history.jsonl", lines);
  ASSERT_TRUE(is_history(path));
  const auto charts = trend_charts(read_history(path));
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_EQ(charts[0].lines.at(0).points.size(), 3u);
  EXPECT_THAT(charts[0].x.names, ElementsAre("aaaaaaa", "bbbbbbb", "ccccccc"));
  EXPECT_THAT(line_chart(charts[0]), HasSubstr(">ccccccc<"));

  ReportRequest request;
  request.inputs = {path};
  request.out = folder.path("report.html");
  write_report(request);
  EXPECT_TRUE(std::filesystem::exists(request.out));
}

TEST(History, OtherJsonLinesAreNotAHistory) {
  const TempFolder folder;
  EXPECT_FALSE(is_history(folder.write("train.jsonl", "{\"global_step\": 1}\n")));
  EXPECT_FALSE(is_history(folder.write("empty.jsonl", "")));
}

TEST(History, EachMachineGetsItsOwnLine) {
  BenchResult result = timed("emblem", 1, 0);
  result.machine.cpu = "CPU";
  const std::vector<HistoryEntry> history = {{"", "a", "", "1111aaaa", {result}},
                                             {"", "b", "", "2222bbbb", {result}}};
  const auto charts = trend_charts(history);
  ASSERT_EQ(charts.at(0).lines.size(), 2u);
  EXPECT_EQ(charts[0].lines[1].name, "dlrm, CPU (2222)");
}

}  // namespace
}  // namespace emblem
