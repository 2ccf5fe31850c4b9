#include "ps/tables/periodic_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <new>

#include "core/threads/becomes_true_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

TEST(PeriodicTaskTest, CallsAgainAndAgainWhateverIsThrown) {
  std::atomic<int> often = 0, seldom = 0;
  const PeriodicTask task("calling", {{"often", 0.0, 0.001}, {"seldom", 0.0, 3600.0}},
                          [&](const std::string& subject) {
                            ++(subject == "often" ? often : seldom);
                            if (often == 2)
                              throw Error(ErrorCode::kUnavailable, "the database is down");
                            if (often == 3) throw std::runtime_error("broken");
                            if (often == 4) throw std::bad_alloc();
                            if (often == 5) throw 7;
                          });
  EXPECT_TRUE(becomes_true([&] { return often >= 8; }));
  EXPECT_EQ(seldom, 0);
}

TEST(PeriodicTaskTest, WaitsForTheFirstTime) {
  std::atomic<int> once = 0, again = 0;
  const PeriodicTask task(
      "calling", {{"once", 0.001, 1e300}, {"again", 0.0, 0.001}},
      [&](const std::string& subject) { ++(subject == "once" ? once : again); });
  EXPECT_TRUE(becomes_true([&] { return once == 1; }));
  const int before = again;
  EXPECT_TRUE(becomes_true([&] { return again >= before + 10; }));
  EXPECT_EQ(once, 1);
}

}  // namespace
}  // namespace emblem
