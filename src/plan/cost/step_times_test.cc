#include "plan/cost/step_times.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(StepTimes, AreSettledWhereTheTwoFastestTurnsAreAboutEqual) {
  EXPECT_FALSE(are_settled({}));
  EXPECT_FALSE(are_settled({1.0}));
  EXPECT_TRUE(are_settled({1.04, 1.0}));
  EXPECT_FALSE(are_settled({1.0, 1.2, 1.5}));
  EXPECT_TRUE(are_settled({1.5, 1.2, 1.21}));
}

}  // namespace
}  // namespace emblem
