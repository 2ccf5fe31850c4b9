#include "serve/engine/batching/slo_batching.h"

#include <gtest/gtest.h>

#include <limits>

namespace emblem {
namespace {

using namespace std::chrono_literals;

TEST(ServiceTimesTest, KnowsNothingAtFirst) {
  const ServiceTimes times;
  EXPECT_FALSE(times.mean(1));
  EXPECT_FALSE(times.cautious(1));
}

TEST(ServiceTimesTest, FollowsWhatIsMeasured) {
  ServiceTimes times;
  for (int i = 0; i < 100; ++i) times.add(8, 50us);
  EXPECT_EQ(times.mean(8), 50us);
  EXPECT_EQ(times.mean(9), 50us);  // the same class
  EXPECT_NEAR(static_cast<double>(times.cautious(8)->count()), 50e3, 10);
  for (int i = 0; i < 100; ++i) times.add(8, 80us);
  EXPECT_NEAR(static_cast<double>(times.mean(8)->count()), 80e3, 10);
}

TEST(ServiceTimesTest, VaryingTimesMakeItCautious) {
  ServiceTimes times;
  for (int i = 0; i < 1000; ++i) times.add(1, i % 2 == 0 ? 40us : 60us);
  EXPECT_NEAR(static_cast<double>(times.mean(1)->count()), 50e3, 2e3);
  EXPECT_GT(*times.cautious(1), 75us);
  EXPECT_LT(*times.cautious(1), 90us);
}

TEST(ServiceTimesTest, SizesOfAClassDifferByLessThanAQuarter) {
  int64_t first = 1;
  for (int64_t rows = 1; rows < 5000; ++rows) {
    const size_t before = ServiceTimes::size_class(std::max<int64_t>(1, rows - 1));
    const size_t now = ServiceTimes::size_class(rows);
    if (now != before) {
      EXPECT_EQ(now, before + 1);
      first = rows;
    }
    EXPECT_LT(static_cast<double>(rows), 1.25 * static_cast<double>(first));
  }
  EXPECT_EQ(ServiceTimes::size_class(0), 0u);
  EXPECT_LT(ServiceTimes::size_class(std::numeric_limits<int64_t>::max()), 128u);
}

TEST(ServiceTimesTest, BoundsSizesThatWereNotMeasured) {
  ServiceTimes times;
  times.add(4, 10us);
  EXPECT_EQ(times.mean(1), 10us);    // not longer than a larger batch
  EXPECT_EQ(times.mean(64), 160us);  // not longer than as many small ones
  times.add(1024, 100us);
  EXPECT_EQ(times.mean(64), 100us);
  EXPECT_EQ(times.mean(16), 40us);
  EXPECT_TRUE(times.mean(std::numeric_limits<int64_t>::max()));
}

}  // namespace
}  // namespace emblem
