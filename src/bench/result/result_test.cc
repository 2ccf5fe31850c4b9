#include "bench/result/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "bench/result/result_table.h"
#include "core/files/temp_folder_test.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

BenchResult sample() {
  BenchResult result;
  result.benchmark = "train";
  result.name = "dlrm-kaggle-d16-b2048";
  result.program = "emblem 0.1.0";
  result.machine = {"Arm Neoverse N1", 2, int64_t{24} << 30, "H200", "Linux 6.1", "gcc 12.2"};
  result.date = "2025-01-31T12:00:00Z";
  result.settings = {{"batch", int64_t{2048}},
                     {"alpha", 1.05},
                     {"dynamic", true},
                     {"device", std::string("cpu")},
                     {"references", std::vector<std::string>{"dlrm-throughput", "frappe"}}};
  result.metrics = {{"samples_per_second", {41000.5, "samples/s", Better::kHigher, 410}},
                    {"step_seconds", {0.05, "s", Better::kLower, 0}}};
  result.stages = {{"load", 0.001}, {"lookup", 0.004}};
  result.ceilings = {{"copy_bytes_per_second", 2.1e10}};
  result.shares = {{"gemm", 0.62}, {"copy", 0.31}};
  result.series = {{"loss", {{1, 0.69}, {2, 0.65}}}, {"auc", {}}};
  return result;
}

std::string result_error(const std::string& json) {
  try {
    parse_bench_results(json, "r.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const char kHead[] = R"("schema":1,"benchmark":"train","name":"n","program":"p")";

TEST(BenchResult, OneResultRoundTripsThroughJson) {
  const BenchResult result = sample();
  EXPECT_EQ(parse_bench_results(to_json({result}), "text"), std::vector{result});
}

TEST(BenchResult, ASingleResultIsAnObjectAndSeveralAreAnArray) {
  EXPECT_EQ(to_json({sample()}).front(), '{');
  const std::vector<BenchResult> two = {sample(), sample()};
  EXPECT_EQ(to_json(two).front(), '[');
  EXPECT_EQ(parse_bench_results(to_json(two), "text"), two);
  EXPECT_TRUE(parse_bench_results(to_json({}), "text").empty());
}

TEST(BenchResult, NanBecomesNullAndIsReadBackAsNan) {
  BenchResult result = sample();
  result.series = {{"loss", {{1, std::numeric_limits<double>::quiet_NaN()}}}};
  result.metrics = {{"auc", {std::numeric_limits<double>::infinity(), ""}}};
  const std::string json = to_json({result});
  EXPECT_THAT(json, HasSubstr("null"));
  const BenchResult back = parse_bench_results(json, "text").at(0);
  EXPECT_TRUE(std::isnan(back.series[0].second[0].second));
  EXPECT_TRUE(std::isnan(back.metrics[0].second.value));
}

TEST(BenchResult, TextThatIsNotUtf8IsReplaced) {
  BenchResult result = sample();
  result.machine.cpu = "odd \xff name";
  EXPECT_EQ(parse_bench_results(to_json({result}), "text").at(0).name, result.name);
}

TEST(BenchResult, FilesRoundTripAndAMissingFileIsNamed) {
  const TempFolder folder;
  const std::string path = folder.path("results.json");
  write_bench_results(path, {sample()});
  EXPECT_EQ(read_bench_results(path), std::vector{sample()});
  std::filesystem::remove(path);
  try {
    read_bench_results(path);
    FAIL() << "a missing file was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

TEST(BenchResult, ErrorsNameTheSourceTheFieldAndWhatWasExpected) {
  const auto object = [](const std::string& more) {
    return std::string("{") + kHead + "," + more + "}";
  };
  EXPECT_THAT(result_error("{not json"),
              AllOf(HasSubstr("r.json is not JSON"), HasSubstr("expected")));
  EXPECT_THAT(result_error("3"), HasSubstr("r.json is 3; expected an object"));
  EXPECT_THAT(result_error(R"({"schema":1,"benchmark":"b","name":"n"})"),
              HasSubstr("has no \"program\""));
  EXPECT_THAT(result_error(R"({"schema":7,"benchmark":"b","name":"n","program":"p"})"),
              HasSubstr("schema 7, but this program reads 1"));
  EXPECT_THAT(result_error(object(R"("metric":{})")), HasSubstr("did you mean \"metrics\"?"));
  EXPECT_THAT(result_error(object(R"("metrics":{"auc":0.8})")),
              HasSubstr("r.json.metrics.auc is 0.8; expected an object"));
  EXPECT_THAT(result_error(object(R"("metrics":{"auc":{"unit":"s"}})")),
              HasSubstr("r.json.metrics.auc has no \"value\""));
  EXPECT_THAT(result_error(object(R"("metrics":{"auc":{"value":"high"}})")),
              HasSubstr("r.json.metrics.auc.value is \"high\"; expected a number"));
  EXPECT_THAT(result_error(object(R"("metrics":{"auc":{"value":1,"interval":[1]}})")),
              HasSubstr("expected [low, high]"));
  EXPECT_THAT(result_error(object(R"("stages":[1])")),
              HasSubstr("r.json.stages is [1]; expected an object"));
  EXPECT_THAT(result_error(object(R"("machine":{"cores":"two"})")),
              HasSubstr("expected a whole number"));
  EXPECT_THAT(result_error(object(R"("series":{"loss":[[1,0.5],[2]]})")),
              HasSubstr("r.json.series.loss[1] is [2]; expected [step, value]"));
  EXPECT_THAT(result_error(object(R"("series":{"loss":[[2,0.5],[1,0.4]]})")),
              HasSubstr("at least 2"));
  EXPECT_THAT(result_error(std::string("[{") + kHead + R"(},{"schema":1}])"),
              HasSubstr("r.json[1] has no"));
}

TEST(BenchResult, SamplesAndIntervalsRoundTrip) {
  BenchResult result = sample();
  result.metrics[0].second.interval = {1.5, 2.5};
  result.metrics[0].second.samples = {1, 2, 3};
  result.machine.driver = "580.65";
  result.machine.flags = "-O3";
  EXPECT_EQ(parse_bench_results(to_json({result}), "r.json").at(0), result);
}

TEST(BenchResult, ThisMachineAndTheClockAreFilledIn) {
  const Machine machine = this_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 1 << 20);
  EXPECT_FALSE(machine.compiler.empty());
  EXPECT_THAT(utc_now(), testing::MatchesRegex("20[0-9][0-9]-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+Z"));
}

TEST(ResultTable, ColumnsAlignAndShowRatiosToTheBaselineOfTheSameName) {
  BenchResult ours = sample();
  BenchResult peer = sample();
  peer.program = "pytorch 2.4";
  peer.metrics = {{"samples_per_second", {20500.25, "samples/s"}}};
  peer.shares.clear();
  BenchResult alone = sample();
  alone.name = "other";
  EXPECT_EQ(results_table({ours, peer, alone}, "pytorch"),
            "train                       program    samples per second  times pytorch  step "
            "seconds\n"
            "dlrm-kaggle-d16-b2048  emblem 0.1.0  41.0 k samples/s ±1%          2.00x         50 "
            "ms\n"
            "dlrm-kaggle-d16-b2048   pytorch 2.4      20.5 k samples/s          1.00x\n"
            "other                  emblem 0.1.0  41.0 k samples/s ±1%                        50 "
            "ms\n");
}

TEST(ResultTable, ShowsP50AndP99OfLatenciesAndFitsATerminal) {
  BenchResult result = sample();
  result.metrics.clear();
  for (const char* name : {"latency", "latency_p10", "latency_p50", "latency_p99", "latency_max",
                           "other_figure", "another_figure", "a_third_figure", "a_fourth_figure"})
    result.metrics.push_back({name, {0.00123, "s", Better::kLower}});
  const std::string table = results_table({result, result}, "");
  EXPECT_THAT(table, testing::AllOf(HasSubstr("latency p50"), HasSubstr("latency p99"),
                                    Not(HasSubstr("latency p10")), Not(HasSubstr("latency max"))));
  for (const std::string& line : split(table, '\n')) EXPECT_LE(line.size(), 100u) << line;
}

TEST(TextTable, LongTextIsBrokenAtSpaces) {
  const std::string first(60, 'a'), second(60, 'b');
  const std::string text = wrap_text("head:", cat(first, " ", second), 8);
  EXPECT_EQ(text, cat("head:   ", first, "\n        ", second, "\n"));
}

TEST(ResultTable, WithoutABaselineThereIsNoRatioColumn) {
  EXPECT_THAT(results_table({sample()}, "pytorch"), Not(HasSubstr("times")));
  EXPECT_THAT(results_table({sample()}, ""), Not(HasSubstr("times")));
}

TEST(ResultTable, LowerIsBetterInvertsTheRatio) {
  EXPECT_DOUBLE_EQ(times_better({2, "s", Better::kLower}, {6, "s", Better::kLower}), 3);
  EXPECT_DOUBLE_EQ(times_better({6, "x/s", Better::kHigher}, {2, "x/s", Better::kHigher}), 3);
  EXPECT_EQ(times_better({0, "s", Better::kLower}, {6, "s", Better::kLower}), 0);
  EXPECT_EQ(times_better({std::nan(""), "", Better::kHigher}, {6, "", Better::kHigher}), 0);
}

TEST(ResultTable, ValuesKeepThreeDigitsAndTheirUnit) {
  EXPECT_EQ(format_metric(107234, "samples/s"), "107 k samples/s");
  EXPECT_EQ(format_metric(3.214e9, "B/s"), "3.21 GB/s");
  EXPECT_EQ(format_metric(999.6, "samples/s"), "1.00 k samples/s");
  EXPECT_EQ(format_metric(12, "rows"), "12 rows");
  EXPECT_EQ(format_metric(0.01234, "s"), "12.3 ms");
  EXPECT_EQ(format_metric(1.5e-6, "s"), "1.5 us");
  EXPECT_EQ(format_metric(0.80214, ""), "0.8021");
  EXPECT_EQ(format_metric(1048576, "B"), "1.00 MiB");
  EXPECT_EQ(format_metric(std::nan(""), "s"), "not a number");
}

}  // namespace
}  // namespace emblem
