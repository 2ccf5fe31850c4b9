#include "store/miss_watch.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(MissWatchTest, AMissWhereThereAreUsuallyNoneIsSaidAtOnce) {
  MissWatch watch;
  for (int64_t now = 0; now < 5000; now += 10) EXPECT_FALSE(watch.note(100, 0, now, 100));
  EXPECT_TRUE(watch.note(100, 1, 5000, 100));
  EXPECT_FALSE(watch.note(100, 1, 5050, 100));  // not again so soon
  EXPECT_TRUE(watch.note(100, 1, 5100, 100));
}

TEST(MissWatchTest, UsualMissesAreNotSaidUntilTheyRise) {
  MissWatch watch;
  int64_t now = 0;
  int said = 0;
  for (; now < 10'000; now += 10) said += watch.note(100, 10, now, 100) ? 1 : 0;
  EXPECT_LE(said, 11);  // in the first second, when nothing was known
  int64_t rise = now;
  while (!watch.note(100, 40, now, 100) && now < rise + 5000) now += 10;
  EXPECT_LT(now, rise + 2000);
}

}  // namespace
}  // namespace emblem
