#include "bench/result/result_files.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BenchResult result(double rate) {
  BenchResult result;
  result.benchmark = "train";
  result.settings = {{"references", std::vector<std::string>{"table"}}};
  result.metrics = {{"samples_per_second", {rate, "samples/s", Better::kHigher}}};
  return result;
}

TEST(PublishedRows, TheBestResultIsComparedWithEveryFigure) {
  ReferenceTable table;
  table.name = "table";
  table.metrics = {{"samples_per_second", "samples/s"}};
  table.figures = {{"SOK", "8 x A100", "DLRM", "AMP", {{"samples_per_second", 14.5e6}}, "there"}};
  const std::vector<BenchResult> results = {result(7.25e6), result(29e6), result(1e6)};
  EXPECT_THAT(references_of(results), ElementsAre("table"));
  const std::string text = published_rows(results, table);
  EXPECT_THAT(text, HasSubstr("8 x A100"));
  EXPECT_THAT(text, HasSubstr("14.5 M samples/s"));
  EXPECT_THAT(text, HasSubstr("2.00x"));
}

TEST(PublishedRows, AreEmptyWithoutAMatchingResult) {
  ReferenceTable table;
  table.metrics = {{"latency", "s"}};
  EXPECT_EQ(published_rows({result(1)}, table), "");
  EXPECT_EQ(published_rows({}, table), "");
}

TEST(PublishedRows, LatenciesAreComparedAtTheSameBatchSize) {
  ReferenceTable table;
  table.metrics = {{"latency", "s"}};
  table.note = "On other hardware.";
  table.figures = {{"HPS", "1 x A100", "DLRM", "batch 32", {{"latency", 400e-6}}, "there"},
                   {"HPS", "1 x A100", "DLRM", "batch 64", {{"latency", 900e-6}}, "there"}};
  const auto timed = [](const std::string& name, int64_t batch, double latency) {
    BenchResult result;
    result.benchmark = "infer";
    result.name = name;
    result.settings = {{"batch", batch}};
    result.metrics = {{"latency_p50", {latency, "s", Better::kLower}}};
    return result;
  };
  const std::string text =
      published_latencies({timed("m-b32", 32, 100e-6), timed("m-b32-stream", 32, 200e-6)}, table);
  EXPECT_THAT(text, HasSubstr("4.00x"));
  EXPECT_THAT(text, HasSubstr("1 x A100"));
  EXPECT_THAT(text, HasSubstr("On other hardware."));
  EXPECT_THAT(text, testing::Not(HasSubstr("2.00x")));
  EXPECT_EQ(published_latencies({timed("m-b16", 16, 1.0)}, table), "");
  EXPECT_EQ(published_latencies({result(1)}, table), "");
}

}  // namespace
}  // namespace emblem
