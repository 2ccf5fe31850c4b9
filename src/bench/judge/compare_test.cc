#include "bench/judge/compare.h"

#include <gmock/gmock.h>

#include "bench/result/history.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

BenchResult result_with(const std::vector<double>& rates, const std::vector<double>& losses) {
  BenchResult result{.benchmark = "suite", .name = "a.config", .program = "emblem"};
  Measure rate{mean_of(rates), "samples/s", Better::kHigher};
  rate.samples = rates;
  Measure loss{mean_of(losses), "", Better::kLower};
  loss.samples = losses;
  result.metrics = {{"rate", rate}, {"loss", loss}};
  return result;
}

TEST(Compare, DirectionDecidesWhatADifferenceMeans) {
  const auto found = compare_results({result_with({100, 101, 102}, {0.5, 0.5, 0.5})},
                                     {result_with({90, 91, 92}, {0.4, 0.4, 0.4})});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].worse());
  EXPECT_TRUE(found[1].better());
  EXPECT_THAT(to_text(found), HasSubstr("-9.90 %"));
  EXPECT_THAT(to_text(found), HasSubstr("large"));
}

TEST(Compare, NoiseIsNotSignificant) {
  const auto found = compare_results({result_with({100, 120, 90}, {0.5, 0.6, 0.4})},
                                     {result_with({110, 95, 105}, {0.6, 0.4, 0.5})});
  EXPECT_FALSE(found[0].significant());
  EXPECT_FALSE(found[1].significant());
}

TEST(Compare, SeveralResultsOfOneNameAreRepetitions) {
  BenchResult one = result_with({}, {});
  one.metrics = {{"rate", {100, "samples/s"}}};
  BenchResult two = one;
  two.metrics[0].second.value = 102;
  EXPECT_EQ(compare_results({one, two}, {one, two})[0].a.samples, (std::vector<double>{100, 102}));
  EXPECT_FALSE(compare_results({one}, {two})[0].test.has_value());
  EXPECT_THAT(to_text(compare_results({one}, {two})), HasSubstr("one run"));
}

TEST(Compare, FilesWithNothingInCommonAreRefused) {
  BenchResult other = result_with({1}, {1});
  other.name = "b.config";
  EXPECT_THROW(compare_results({result_with({1}, {1})}, {other}), Error);
}

TEST(History, LinesKeepRevisionEnvironmentAndResults) {
  const TempFolder folder;
  const std::string path = folder.path("history.jsonl");
  const auto results = std::vector{result_with({1, 2, 3}, {0.5, 0.4, 0.3})};
  append_history(path, "abc", results);
  append_history(path, "def", results);
  const auto entries = read_history(path);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].revision, "def");
  EXPECT_EQ(entries[0].environment, fingerprint(this_machine()));
  EXPECT_EQ(entries[0].results, results);
  Machine other = this_machine();
  other.flags += " -O0";
  EXPECT_NE(fingerprint(other), fingerprint(this_machine()));
}

TEST(History, OutsideOfARepositoryTheRevisionIsUnknown) {
  const TempFolder folder;
  EXPECT_EQ(source_revision(folder.path("emblem"), folder.path()), "unknown");
}

}  // namespace
}  // namespace emblem
