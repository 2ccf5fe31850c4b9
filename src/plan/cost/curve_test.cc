#include "plan/cost/curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace emblem {
namespace {

TEST(Curve, IsStraightBetweenPointsAndBeyondTheLast) {
  const Curve curve({{100, 3.0}, {10, 1.0}, {200, 4.0}});
  EXPECT_DOUBLE_EQ(curve.at(0), 1.0);
  EXPECT_DOUBLE_EQ(curve.at(55), 2.0);
  EXPECT_DOUBLE_EQ(curve.at(150), 3.5);
  EXPECT_DOUBLE_EQ(curve.at(400), 6.0);
  EXPECT_DOUBLE_EQ(Curve().at(5), 0.0);
  EXPECT_DOUBLE_EQ(Curve({{7, 2.0}}).at(50), 2.0);
}

TEST(Curve, NeverFalls) {
  const Curve curve({{1, 2.0}, {2, 1.0}, {3, 5.0}});
  EXPECT_DOUBLE_EQ(curve.at(2), 2.0);
  EXPECT_DOUBLE_EQ(curve.at(3), 5.0);
}

TEST(KernelCurves, InterpolatesSharesAndSizesOfTables) {
  const auto constant = [](double seconds) { return Curve({{0, seconds}, {1, seconds}}); };
  const KernelCurves curves({{100, 0.0, constant(1)},
                             {100, 1.0, constant(3)},
                             {10000, 0.0, constant(5)},
                             {10000, 1.0, constant(7)}});
  EXPECT_DOUBLE_EQ(curves.at(1, 0.5, 100), 2.0);
  EXPECT_DOUBLE_EQ(curves.at(1, 0.5, 1), 2.0);
  EXPECT_DOUBLE_EQ(curves.at(1, 2.0, 1000), 5.0);  // halfway between the logarithms
  EXPECT_DOUBLE_EQ(curves.at(1, 1.0, 1e9), 7.0);
}

}  // namespace
}  // namespace emblem
