#include "launch/launch.h"

#include <gmock/gmock.h>

#include "comm/tcp/launcher.h"
#include "launch/rank_output.h"

namespace emblem {
namespace {

using testing::ElementsAre;

TEST(Launch, TrainingContinuesWhenItIsStartedAgain) {
  LaunchOptions options;
  options.command = {"train", "--config", "x"};
  EXPECT_THAT(arguments_of_attempt(options, 0), ElementsAre("train", "--config", "x"));
  EXPECT_THAT(arguments_of_attempt(options, 1), ElementsAre("train", "--config", "x", "--resume"));
  options.command = {"train", "--resume", "--config", "x"};
  EXPECT_THAT(arguments_of_attempt(options, 1), ElementsAre("train", "--resume", "--config", "x"));
  options.command = {"bench", "comm"};
  EXPECT_THAT(arguments_of_attempt(options, 2), ElementsAre("bench", "comm"));
  options.program = "python3";
  options.command = {"train"};
  EXPECT_THAT(arguments_of_attempt(options, 2), ElementsAre("train"));
}

TEST(Launch, TheTimeBeforeARestartDoublesUpToALimit) {
  std::vector<double> seconds;
  for (const int restart : {1, 2, 3, 5, 6, 100}) seconds.push_back(seconds_before_restart(restart));
  EXPECT_THAT(seconds, ElementsAre(1, 2, 4, 16, 30, 30));
}

TEST(Launch, RemovesTheVariablesOfOtherLaunchersThatWouldCountMore) {
  EXPECT_THAT(variables_before_torchrun(),
              testing::UnorderedElementsAre("TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"));
}

TEST(LineBuffer, PiecesBecomeLines) {
  LineBuffer buffer;
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line, LineEnd end) {
    lines.push_back(std::string(line) + (end == LineEnd::kNewline ? "$" : ""));
  };
  for (const char* piece : {"a", "b\n\nc", "d\ne", ""}) buffer.add(piece, take);
  buffer.finish(take);
  buffer.finish(take);
  EXPECT_THAT(lines, ElementsAre("ab$", "$", "cd$", "e"));
  lines.clear();
  buffer.add(std::string(LineBuffer::kLongestLine, 'x'), take);
  EXPECT_EQ(lines.size(), 1u);
}

}  // namespace
}  // namespace emblem
