#include "launch/rank_command.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/system/subprocess.h"
#include "emblem/error.h"

namespace emblem {
namespace {

const std::vector<std::string> kStrange = {"",       " ",    "a b",  "it's", "\"x\"", "$HOME",
                                           "`date`", "\\n",  "a\nb", "*",    "[a,b]", "--",
                                           "!x",     "\xff", "~",    "a;b",  "a|b&c", "#x"};

TEST(RankCommand, AnyBytesSurviveEncodingAndArriveInPieces) {
  RankCommand command{{"program"}, "/a folder/x'y", {{"A", "1=2\n3"}, {"EMPTY", ""}}};
  command.arguments.insert(command.arguments.end(), kStrange.begin(), kStrange.end());
  std::string received, all = encode(command) + "signal 2\n";
  std::optional<RankCommand> got;
  size_t sent = 0;
  while (!got) {
    ASSERT_LT(sent, all.size());
    received += all[sent++];
    got = take_command(received);
  }
  EXPECT_EQ(got->arguments, command.arguments);
  EXPECT_EQ(got->folder, command.folder);
  EXPECT_EQ(got->environment, command.environment);
  EXPECT_EQ(received + all.substr(sent), "signal 2\n");
}

TEST(RankCommand, WhatIsNotACommandIsRefused) {
  for (std::string bytes : {"hello\n", "-1\n", "99999999999999999999999999", "3\nab"}) {
    bytes += std::string(1, '\0');
    EXPECT_THROW(take_command(bytes), Error) << bytes;
  }
  const std::string fields[] = {"0.0.0", "/", "0", "true"};  // fields of another version
  std::string body;
  for (const std::string& field : fields) body += field + std::string(1, '\0');
  std::string other = cat(body.size(), "\n", body);
  EXPECT_THROW(take_command(other), Error);
}

TEST(RankCommand, QuotedWordsAreWordsForAShell) {
  const TempFolder folder;
  std::string script = "printf '%s\\n'", expected;
  for (const std::string& word : kStrange) {
    script += " " + shell_quoted(word);
    expected += word + "\n";
  }
  EXPECT_TRUE(
      run_subprocess(
          {.arguments = {"/bin/sh", "-c", script}, .environment = {}, .log = folder.path("log")})
          .succeeded());
  EXPECT_EQ(read_text_file(folder.path("log")), expected);
  EXPECT_EQ(shell_quoted("/usr/bin/emblem-1.0"), "/usr/bin/emblem-1.0");
}

TEST(RankCommand, CpusAreSharedUnlessTheUserSaysOtherwise) {
  unsetenv("EMBLEM_THREADS");
  unsetenv("OMP_NUM_THREADS");
  std::vector<std::pair<std::string, std::string>> alone, given = {{"EMBLEM_THREADS", "7"}}, many;
  add_cpu_share(1, alone);
  EXPECT_TRUE(alone.empty());
  add_cpu_share(100000, many);
  EXPECT_THAT(many, testing::ElementsAre(testing::Pair("EMBLEM_THREADS", "1"),
                                         testing::Pair("OMP_NUM_THREADS", "1")));
  add_cpu_share(100000, given);
  EXPECT_THAT(given, testing::ElementsAre(testing::Pair("EMBLEM_THREADS", "7"),
                                          testing::Pair("OMP_NUM_THREADS", "1")));
}

}  // namespace
}  // namespace emblem
