#include "core/system/log.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace emblem {
namespace {

// The level is read at the first line, hence the processes of their own.
void log_and_exit(const char* level) {
  if (level != nullptr)
    setenv("EMBLEM_LOG", level, 1);
  else
    unsetenv("EMBLEM_LOG");
  log_debug("one");
  log_info("two {} %v");
  log_warn("three");
  log_error("four");
  std::exit(0);
}

class LogDeathTest : public testing::Test {
 protected:
  LogDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LogDeathTest, ShowsLinesFromInfoOnUnlessToldOtherwise) {
  const char* from_info = "^emblem: two \\{\\} %v\nemblem: warning: three\nemblem: error: four\n$";
  EXPECT_EXIT(log_and_exit(nullptr), testing::ExitedWithCode(0), from_info);
  EXPECT_EXIT(log_and_exit("louder"), testing::ExitedWithCode(0), from_info);
}

TEST_F(LogDeathTest, TheEnvironmentChoosesTheLevel) {
  EXPECT_EXIT(log_and_exit("debug"), testing::ExitedWithCode(0), "^emblem: one\nemblem: two");
  EXPECT_EXIT(log_and_exit("warn"), testing::ExitedWithCode(0),
              "^emblem: warning: three\nemblem: error: four\n$");
  EXPECT_EXIT(log_and_exit("error"), testing::ExitedWithCode(0), "^emblem: error: four\n$");
}

void change_and_log() {
  set_log_settings({.info = false, .verbose_level = 1, .iso8601 = true});
  log_debug("one");
  log_info("two");
  log_warn("three");
  std::exit(0);
}

TEST_F(LogDeathTest, SettingsCanBeChangedWhileTheProgramRuns) {
  EXPECT_EXIT(change_and_log(), testing::ExitedWithCode(0),
              "^20..-..-..T..:..:..Z emblem: one\n20..-..-..T..:..:..Z emblem: warning: three\n$");
}

void log_foreign_text() {
  log_warn("name 'x\nemblem: error: not true\x1b[31m'");
  std::exit(0);
}

TEST_F(LogDeathTest, TextOfOthersAddsNoLines) {
  EXPECT_EXIT(log_foreign_text(), testing::ExitedWithCode(0),
              "^emblem: warning: name 'x.x0aemblem: error: not true.x1b.31m'\n$");
}

}  // namespace
}  // namespace emblem
