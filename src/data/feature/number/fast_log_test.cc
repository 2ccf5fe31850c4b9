#include "data/feature/number/fast_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/math/random.h"

namespace emblem {
namespace {

// Distance in units in the last place of the true value.
double error_in_ulps(float got, double expected) {
  const double unit = std::fabs(expected) < 1e-30
                          ? 1e-37
                          : std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
  return std::fabs(static_cast<double>(got) - expected) / unit;
}

TEST(FastLog, IsWithinTwoUnitsForAllMagnitudes) {
  Random random{1, 1};
  double worst = 0;
  for (int i = 0; i < 2000000; ++i) {
    const float x = std::ldexp(1.0f + random.uniform(), static_cast<int>(random.below(252)) - 126);
    worst = std::max(worst, error_in_ulps(fast_log(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 2.0);
}

TEST(FastLog, IsWithinTwoUnitsAroundOneAndForCounts) {
  double worst = 0;
  for (uint32_t bits = 0x3f000000u; bits < 0x40400000u; bits += 7) {  // 0.5 to 3
    float x;
    std::memcpy(&x, &bits, 4);
    worst = std::max(worst, error_in_ulps(fast_log(x), std::log(static_cast<double>(x))));
  }
  for (int count = 1; count < 1000000; ++count) {
    const auto x = static_cast<float>(count);
    worst = std::max(worst, error_in_ulps(fast_log(x), std::log(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(fast_log(1.0f), 0.0f);
}

TEST(FastLog1p, IsWithinThreeUnitsFromTinyToLarge) {
  Random random{2, 1};
  double worst = 0;
  for (int i = 0; i < 2000000; ++i) {
    const float x = std::ldexp(1.0f + random.uniform(), static_cast<int>(random.below(150)) - 30);
    worst = std::max(worst, error_in_ulps(fast_log1p(x), std::log1p(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 3.0);
  EXPECT_EQ(fast_log1p(0.0f), 0.0f);
}

}  // namespace
}  // namespace emblem
