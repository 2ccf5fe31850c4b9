#include "core/system/warn_once.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;

class WarnOnce : public testing::Test {
 protected:
  WarnOnce() {
    forget_warnings();
    set_log_sink([this](LogLevel, const std::string& line) { lines_.push_back(line); });
  }
  ~WarnOnce() override { set_log_sink({}); }

  std::vector<std::string> lines_;
};

TEST_F(WarnOnce, LogsTheFirstLineOfAKey) {
  warn_once("a", "first");
  warn_once("b", "other key");
  warn_once("a", "again");
  EXPECT_THAT(lines_, ElementsAre("first", "other key"));
}

TEST_F(WarnOnce, LogsAgainAfterThePeriodAndWhenAllIsForgotten) {
  using namespace std::chrono_literals;
  warn_once("a", "first");
  warn_once("a", "within the period", 1h);
  warn_once("a", "after the period", 0ns);
  forget_warnings();
  warn_once("a", "forgotten");
  EXPECT_THAT(lines_, ElementsAre("first", "after the period", "forgotten"));
}

TEST_F(WarnOnce, RemembersABoundedNumberOfKeys) {
  for (int i = 0; i < 2000; ++i) warn_once(cat("key ", i), "line");
  EXPECT_EQ(lines_.size(), 2000u);
  warn_once("key 1999", "line");
  EXPECT_EQ(lines_.size(), 2000u) << "one of the latest";
  warn_once("key 0", "line");
  EXPECT_EQ(lines_.size(), 2001u) << "the oldest";
}

}  // namespace
}  // namespace emblem
