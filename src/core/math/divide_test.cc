#include "core/math/divide.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace emblem {
namespace {

TEST(Divide, RoundsUp) {
  EXPECT_EQ(divide_up(0, 4), 0);
  EXPECT_EQ(divide_up(1, 4), 1);
  EXPECT_EQ(divide_up(4, 4), 1);
  EXPECT_EQ(divide_up(int64_t{1} << 40, 3), 366503875926);
  EXPECT_EQ(round_up(size_t{0}, 16), 0u);
  EXPECT_EQ(round_up(size_t{17}, 16), 32u);
  EXPECT_EQ(round_up(uint32_t{32}, 16), 32u);
}

}  // namespace
}  // namespace emblem
