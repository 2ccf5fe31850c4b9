#include "bench/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "bench/report/groups.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

BenchResult train_result(const std::string& program, double rate) {
  BenchResult result;
  result.benchmark = "train";
  result.name = "dlrm-d16";
  result.program = program;
  result.machine.cpu = "Test CPU";
  result.machine.cores = 2;
  result.settings = {{"batch", int64_t{2048}}};
  result.metrics = {{"samples_per_second", {rate, "samples/s", Better::kHigher, 0}}};
  result.stages = {{"lookup", 0.004}, {"dense_forward", 0.012}};
  result.ceilings = {{"gemm_flops_per_second", 7.2e10}};
  result.shares = {{"gemm", 0.625}};
  return result;
}

Report compared_report() {
  Report report;
  report.results = {train_result("pytorch 2.4", 20000), train_result("emblem 0.1.0", 50000)};
  BenchResult run;
  run.benchmark = "training";
  run.name = "model";
  run.program = "emblem";
  run.settings = {{"limit_auc", 0.80}};
  run.metrics = {{"auc", {0.79, "", Better::kHigher, 0}}};
  run.series = {{"auc", {{100, 0.7}, {200, 0.79}}}, {"train_lr", {{1, 0.5}, {2, 0.5}}}};
  report.results.push_back(run);
  return report;
}

// A page without external resources; links are allowed.
void expect_self_contained(const std::string& html) {
  for (const char* part : {"<script", "<link", "<img", "<iframe", "src=", "url(", "@import",
                           "xlink", "onload", "onerror="})
    EXPECT_THAT(html, Not(HasSubstr(part)));
}

TEST(ReportHtml, ShowsRatiosStagesSharesCurvesAndLimits) {
  const std::string html = report_html(compared_report());
  EXPECT_THAT(html, HasSubstr("<span class='good'>2.50x</span> pytorch 2.4"));
  EXPECT_THAT(html, HasSubstr("50.0 k samples/s"));
  EXPECT_THAT(html, HasSubstr("dense forward <b>12 ms</b>"));
  EXPECT_THAT(html, HasSubstr("62% of 72.0 GFLOP/s"));
  EXPECT_THAT(html, HasSubstr("limit 0.8000"));
  EXPECT_THAT(html, HasSubstr("0.0100 below the limit 0.8000"));
  EXPECT_THAT(html, HasSubstr("Constant: train lr 0.5"));
  EXPECT_THAT(html, HasSubstr("Test CPU, 2 cores"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  expect_self_contained(html);
}

TEST(ReportHtml, ARatioBelowOneIsNotGreen) {
  Report report;
  report.results = {train_result("emblem 0.1.0", 10000), train_result("pytorch 2.4", 20000)};
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("0.50x"));
  EXPECT_THAT(html, Not(HasSubstr("<span class='good'>")));
}

TEST(ReportHtml, TextFromFilesNeverBecomesMarkup) {
  const std::string evil = "<script src='//x'>&\"";
  Report report;
  report.title = evil;
  BenchResult result = train_result("emblem " + evil, 1);
  result.name = result.benchmark = result.date = evil;
  result.machine = {evil, 1, 1, evil, evil, evil};
  result.settings = {{evil, evil}, {"list", std::vector<std::string>{evil}}};
  result.metrics = {{evil, {1, evil, Better::kHigher, 0}}};
  result.stages = {{evil, 1.0}};
  result.ceilings = {{evil, 1.0}};
  result.shares = {{evil, 0.5}};
  result.series = {{evil, {{1, 1}, {2, 2}}}};
  BenchResult peer = result;
  peer.program = evil;
  report.results = {result, peer};
  report.references = {{evil,
                        evil,
                        evil,
                        {{evil, evil}},
                        {{evil, evil, evil, evil, {{evil, 1.0}}, "https://" + evil}}}};
  const std::string html = report_html(report);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("src='//x'")));
  EXPECT_THAT(html, HasSubstr("&lt;script src=&#39;//x&#39;&gt;&amp;&quot;"));
  EXPECT_THAT(report_markdown(report), Not(HasSubstr(" <script")));
}

TEST(ReportHtml, LinksOnlyToHttpsSources) {
  Report report = compared_report();
  report.references = {
      {"n", "t", "", {{"auc", ""}}, {{"s", "", "", "", {{"auc", 0.8}}, "javascript:alert(1)"}}}};
  EXPECT_THAT(report_html(report),
              AllOf(HasSubstr("javascript:alert(1)"), Not(HasSubstr("href='javascript"))));
}

TEST(ReportHtml, ResultsWithNothingButNamesStillMakeAPage) {
  Report report;
  report.results.push_back({.benchmark = "b", .name = "n", .program = "emblem"});
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("</html>"));
  EXPECT_THAT(html, Not(HasSubstr("Curves")));
  EXPECT_THAT(report_markdown(report), HasSubstr("# Emblem report"));
}

TEST(ReportHtml, NanIsShownAsTextAndNotDrawn) {
  Report report = compared_report();
  report.results[1].metrics[0].second.value = std::nan("");
  report.results[1].stages = {{"lookup", std::nan("")}};
  report.results[2].series = {{"auc", {{1, std::nan("")}}}};
  const std::string html = report_html(report);
  EXPECT_THAT(html, HasSubstr("not a number"));
  EXPECT_THAT(html, Not(HasSubstr("='nan")));
}

TEST(ReportMarkdown, HasTheSameFigures) {
  const std::string text = report_markdown(compared_report());
  EXPECT_THAT(text, HasSubstr("| train | dlrm-d16 | emblem 0.1.0 | 50.0 k samples/s |  | 2.50x |"));
  EXPECT_THAT(text, HasSubstr("| model | auc | 2 | 0.7000 | 0.7900 | 0.8000 |"));
  EXPECT_THAT(text, HasSubstr("| dlrm-d16 | emblem 0.1.0 | dense forward | 12 ms | 75% |"));
}

TEST(ReportGroups, OursComeFirstAndNamesKeepTheirOrder) {
  const Report report = compared_report();
  const auto groups = group_results(report.results);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].ours()->program, "emblem 0.1.0");
  EXPECT_EQ(groups[0].peer()->program, "pytorch 2.4");
  EXPECT_EQ(groups[1].peer(), nullptr);
}

TEST(ReportGroups, TheNameOfAShareSelectsItsCeiling) {
  BenchResult result;
  result.ceilings = {{"copy_bytes_per_second", 2e10}, {"gemm_flops_per_second", 7.2e10}};
  EXPECT_EQ(format_share(result, "dense at gemm ceiling", 0.5), "50% of 72.0 GFLOP/s");
  EXPECT_EQ(format_share(result, "copy", 0.25), "25% of 20.0 GB/s");
  EXPECT_EQ(format_share(result, "copying", 0.25), "25%");
}

class ReportFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text);
  }
  std::string path(const std::string& name = "") const { return folder_.path(name); }

  std::string error_of(const ReportRequest& request) {
    try {
      write_report(request);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const TempFolder folder_;
};

TEST_F(ReportFiles, AModelFolderItsDataAndBenchmarksMakeOnePage) {
  write("model/train_eval_result.jsonl",
        "{\"global_step\":100,\"epoch\":0,\"auc\":0.7,\"log_loss\":0.5}\n"
        "{\"global_step\":200,\"epoch\":0,\"auc\":0.78,\"log_loss\":0.45}\n");
  write("model/train_log.jsonl",
        "{\"global_step\":10,\"epoch\":0,\"loss\":0.69}\n{\"global_step\":20,\"loss\":0.6}\n");
  write("metadata.json",
        R"({"preset":"criteo","best_auc":0.8,"best_log_loss":0.44,"test":{"best_auc":0.1}})");
  BenchResult bench = train_result("emblem 0.1.0", 50000);
  bench.settings.emplace_back("references",
                              std::vector<std::string>{"known", "unknown", "../secret"});
  write_bench_results(path("bench.json"), {bench});
  write("known.json",
        R"({"name":"known","title":"Known figures","metrics":{"samples_per_second":"samples/s"},
    "figures":[{"system":"S","hardware":"8 x H","values":{"samples_per_second":37.1e6},"source":"https://example.org"}]})");

  ReportRequest request;
  request.inputs = {path("model"), path("bench.json")};
  request.out = path("report.html");
  request.markdown = path("report.md");
  request.data = path("metadata.json");
  request.reference_folder = path();
  EXPECT_THAT(write_report(request), ElementsAre("unknown", "../secret"));

  const std::string html = read_text_file(request.out);
  EXPECT_THAT(html, HasSubstr("model, auc"));
  EXPECT_THAT(html, HasSubstr("0.0200 below the limit 0.8000"));
  EXPECT_THAT(html, HasSubstr("<figcaption>train loss</figcaption>"));
  EXPECT_THAT(html,
              AllOf(HasSubstr("Known figures"), HasSubstr("37.1 M samples/s"), HasSubstr("8 x H")));
  expect_self_contained(html);
  EXPECT_THAT(read_text_file(request.markdown), HasSubstr("Known figures"));
}

TEST_F(ReportFiles, TheResultOfARunIsThatOfTheWeightsItRestored) {
  write("model/train_eval_result.jsonl",
        "{\"global_step\":100,\"epoch\":0,\"auc\":0.79}\n"
        "{\"global_step\":200,\"epoch\":0,\"auc\":0.75}\n"
        "{\"global_step\":200,\"epoch\":0,\"restored_step\":100,\"auc\":0.79}\n");
  for (const char* input : {"model", "model/train_eval_result.jsonl"}) {
    const BenchResult run = read_report_input(path(input)).at(0);
    ASSERT_EQ(run.metrics.size(), 1u) << input;
    EXPECT_EQ(run.metrics[0].second.value, 0.79) << input;
    ASSERT_EQ(run.series.size(), 1u) << input;
    EXPECT_THAT(run.series[0].second,
                ElementsAre(testing::Pair(100, 0.79), testing::Pair(200, 0.75)))
        << input;
  }
}

TEST_F(ReportFiles, AModelFolderWithoutEvaluationsShowsItsLosses) {
  write("model/train_eval_result.jsonl", "");
  write("model/train_log.jsonl", "{\"global_step\":10,\"epoch\":0,\"loss\":0.69}\n");
  const BenchResult run = read_report_input(path("model")).at(0);
  ASSERT_EQ(run.series.size(), 1u);
  EXPECT_EQ(run.series[0].first, "train_loss");
}

TEST_F(ReportFiles, AModelFolderWithATrailingSlashKeepsItsName) {
  write("model/train_eval_result.jsonl", "{\"global_step\":100,\"auc\":0.7}\n");
  EXPECT_EQ(read_report_input(path("model/")).at(0).name, "model");
  EXPECT_EQ(read_report_input(path("model/train_eval_result.jsonl")).at(0).name, "model");
}

TEST_F(ReportFiles, ErrorsNameTheInputAndWhatIsExpected) {
  ReportRequest request;
  request.out = path("report.html");
  EXPECT_THAT(error_of(request), HasSubstr("at least one"));
  request.inputs = {path("absent.json")};
  EXPECT_THAT(error_of(request),
              AllOf(HasSubstr("absent.json does not exist"), HasSubstr("expected")));
  fs::create_directory(path("model"));
  request.inputs = {path("model")};
  EXPECT_THAT(error_of(request), HasSubstr("has neither train_log.jsonl nor"));
  request.inputs = {write("bad.jsonl", "nonsense\n")};
  EXPECT_THAT(error_of(request), HasSubstr("no line with a \"global_step\""));
  request.inputs = {write("empty.json", "[]")};
  EXPECT_THAT(error_of(request), HasSubstr("hold no result"));
  write_bench_results(path("bench.json"), {train_result("emblem", 1)});
  request.inputs = {path("bench.json")};
  request.data = write("metadata.json", "{}");
  EXPECT_THAT(error_of(request), HasSubstr("best_auc"));
  request.data.clear();
  request.references = {"absent"};
  EXPECT_THAT(error_of(request), AllOf(HasSubstr("\"absent\""), HasSubstr("bench/reference"),
                                       HasSubstr("--references")));
  request.reference_folder = path();
  EXPECT_THAT(error_of(request), HasSubstr("absent.json"));
  EXPECT_FALSE(fs::exists(request.out));
}

TEST(Reference, TheFolderIsFoundHereOrAboveTheProgram) {
  const TempFolder temp;
  const fs::path tree = temp.path("tree");
  fs::create_directories(tree / "bench/reference");
  fs::create_directories(tree / "build/release");
  fs::create_directories(temp.path("elsewhere/bin"));
  const fs::path program = tree / "build/release/emblem",
                 stranger = temp.path("elsewhere/bin/emblem");
  EXPECT_EQ(find_reference_folder(temp.path("elsewhere"), program),
            (tree / "bench/reference").string());
  EXPECT_EQ(find_reference_folder(tree, stranger), (tree / "bench/reference").string());
  EXPECT_EQ(find_reference_folder(temp.path("elsewhere"), stranger), "");
  const fs::path installed = temp.path("elsewhere/share/emblem/bench/reference");
  fs::create_directories(installed);
  EXPECT_EQ(find_reference_folder(temp.path("elsewhere"), stranger), installed.string());
}

TEST(Reference, EveryShippedTableIsValidAndNamedAsItsFile) {
  const fs::path folder = fs::path(__FILE__).parent_path() / "../../../bench/reference";
  int tables = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const ReferenceTable table = read_reference(entry.path().string());
    EXPECT_EQ(table.name, entry.path().stem().string());
    EXPECT_FALSE(table.figures.empty()) << entry.path();
    ++tables;
  }
  EXPECT_GE(tables, 4);
}

TEST(Reference, FiguresWithoutASourceOrWithUnlistedMetricsAreRefused) {
  const auto error_of = [](const std::string& json) -> std::string {
    try {
      parse_reference(json, "r.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("{}"), HasSubstr("expected an object with"));
  EXPECT_THAT(error_of(R"({"metrics":{"auc":""},"figures":[{"system":"S","values":{"auc":1}}]})"),
              HasSubstr("source"));
  EXPECT_THAT(
      error_of(R"({"metrics":{},"figures":[{"system":"S","source":"x","values":{"auc":1}}]})"),
      HasSubstr("does not list"));
  EXPECT_THAT(
      error_of(
          R"({"metrics":{"auc":""},"figures":[{"system":"S","source":"x","values":{"auc":"1"}}]})"),
      HasSubstr("expected a number"));
}

}  // namespace
}  // namespace emblem
