#include "checkpoint/results.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ResultsTest : public testing::Test {
 protected:
  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const ResultLine& line : read_results(path_)) steps.push_back(line.step);
    return steps;
  }
  void append_raw(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  const TempFolder folder_;
  const std::string path_ = folder_.path("results.jsonl");  // not made yet
};

TEST_F(ResultsTest, WritesSortedNamesAfterStepAndEpoch) {
  Results results(path_, 0);
  results.append(100, 1,
                 {{"log_loss", 0.25},
                  {"auc", 0.5},
                  {"calibration", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_EQ(
      read_text_file(path_),
      "{\"global_step\":100,\"epoch\":1,\"auc\":0.5,\"calibration\":null,\"log_loss\":0.25}\n");
}

TEST_F(ResultsTest, ReadsBackTheSameNumbers) {
  Results results(path_, 0);
  const double third = 1.0 / 3;
  results.append(7, 2, {{"auc", third}, {"log_loss", std::numeric_limits<double>::quiet_NaN()}});
  const auto lines = read_results(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].step, 7);
  EXPECT_EQ(lines[0].epoch, 2);
  EXPECT_EQ(lines[0].values.at("auc"), third);
  EXPECT_TRUE(std::isnan(lines[0].values.at("log_loss")));
}

TEST_F(ResultsTest, AResumeDropsLinesBeyondTheCheckpoint) {
  {
    Results results(path_, 0);
    for (const int64_t step : {100, 200, 300}) results.append(step, 0, {});
  }
  Results results(path_, 200);
  EXPECT_THAT(steps(), ElementsAre(100, 200));
  results.append(300, 0, {});
  EXPECT_THAT(steps(), ElementsAre(100, 200, 300));
}

TEST_F(ResultsTest, ANewRunStartsEmpty) {
  Results(path_, 0).append(100, 0, {});
  const Results results(path_, 0);
  EXPECT_TRUE(steps().empty());
}

TEST_F(ResultsTest, AStepThatIsAppendedAgainReplacesItsLine) {
  Results results(path_, 0);
  results.append(100, 0, {{"auc", 0.5}});
  results.append(200, 0, {{"auc", 0.6}});
  results.append(200, 0, {{"auc", 0.7}});
  EXPECT_THAT(steps(), ElementsAre(100, 200));
  EXPECT_EQ(read_results(path_).back().values.at("auc"), 0.7);
  results.append(300, 0, {});
  EXPECT_THAT(steps(), ElementsAre(100, 200, 300));
}

TEST_F(ResultsTest, TheLastLineOfARestoredRunNamesTheStepOfItsWeights) {
  Results results(path_, 0);
  results.append(100, 0, {{"auc", 0.7}});
  results.append(200, 0, {{"auc", 0.6}});
  results.append_restored(200, 0, 100, {{"auc", 0.7}});
  const auto lines = read_results(path_);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].restored_step, std::nullopt);
  EXPECT_EQ(lines[1].values.at("auc"), 0.6) << "the evaluation of that step stays";
  EXPECT_EQ(lines[2].step, 200);
  EXPECT_EQ(lines[2].restored_step, 100);
  EXPECT_EQ(lines[2].values.at("auc"), 0.7);
  EXPECT_EQ(lines[2].values.size(), 1u);
}

TEST_F(ResultsTest, ARestoredRunThatContinuesDropsItsFinalLine) {
  {
    Results results(path_, 0);
    results.append(100, 0, {});
    results.append_restored(200, 0, 100, {});
  }
  Results results(path_, 200);
  EXPECT_THAT(steps(), ElementsAre(100));
  results.append(300, 0, {});
  EXPECT_THAT(steps(), ElementsAre(100, 300));
}

TEST_F(ResultsTest, ForgetsALineThatAKilledProcessLeftIncomplete) {
  Results(path_, 0).append(100, 0, {{"auc", 0.5}});
  append_raw("{\"global_step\":200,\"au");
  EXPECT_THAT(steps(), ElementsAre(100));
  Results results(path_, 200);
  results.append(200, 0, {});
  EXPECT_THAT(steps(), ElementsAre(100, 200));
}

TEST_F(ResultsTest, SkipsLinesThatAreNotResults) {
  append_raw("nonsense\n[1]\n{\"a\":1}\n{\"global_step\":\"x\"}\n{\"global_step\":5}\n");
  EXPECT_THAT(steps(), ElementsAre(5));
}

TEST_F(ResultsTest, AMissingFileHasNoLines) { EXPECT_TRUE(read_results(path_).empty()); }

TEST_F(ResultsTest, NamesThePathThatCannotBeWritten) {
  EXPECT_THAT([] { Results("/nowhere/at/all.jsonl", 0); },
              ThrowsMessage<Error>(HasSubstr("cannot write /nowhere/at/all.jsonl")));
}

}  // namespace
}  // namespace emblem
