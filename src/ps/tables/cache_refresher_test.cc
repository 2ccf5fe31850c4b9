#include "ps/tables/cache_refresher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "emblem/error.h"

namespace emblem {
namespace {

bool becomes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

TEST(CacheRefresher, CallsAgainAndAgainEvenAfterFailures) {
  std::atomic<int> often = 0, seldom = 0;
  const CacheRefresher refresher({{"often", 0.0, 0.01}, {"seldom", 0.0, 3600.0}},
                                 [&](const std::string& model) {
                                   ++(model == "often" ? often : seldom);
                                   if (often == 2)
                                     throw Error(ErrorCode::kUnavailable, "the database is down");
                                 });
  EXPECT_TRUE(becomes_true([&] { return often >= 5; }));
  EXPECT_EQ(seldom, 0);
}

TEST(CacheRefresher, WaitsForTheFirstTime) {
  std::atomic<int> calls = 0;
  const CacheRefresher refresher({{"m", 0.01, 1e300}}, [&](const std::string&) { ++calls; });
  EXPECT_TRUE(becomes_true([&] { return calls == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace emblem
