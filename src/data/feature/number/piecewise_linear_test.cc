#include "data/feature/number/piecewise_linear.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace emblem {
namespace {

using ::testing::ElementsAre;

std::vector<float> encode(const PiecewiseLinear& encoding, float x) {
  std::vector<float> out(static_cast<size_t>(encoding.bins()));
  encoding.encode(x, out.data());
  return out;
}

TEST(PiecewiseLinear, FillsTheBinsBelowANumber) {
  const PiecewiseLinear encoding({-1, 1, 5});
  EXPECT_THAT(encode(encoding, -7), ElementsAre(0, 0));
  EXPECT_THAT(encode(encoding, -1), ElementsAre(0, 0));
  EXPECT_THAT(encode(encoding, 0), ElementsAre(0.5f, 0));
  EXPECT_THAT(encode(encoding, 1), ElementsAre(1, 0));
  EXPECT_THAT(encode(encoding, 2), ElementsAre(1, 0.25f));
  EXPECT_THAT(encode(encoding, 100), ElementsAre(1, 1));
}

TEST(PiecewiseLinear, EndsOfTheRangeOfNumbersAreInTheOuterBins) {
  const float most = std::numeric_limits<float>::max();
  const PiecewiseLinear encoding({0, 1});
  EXPECT_THAT(encode(encoding, most), ElementsAre(1));
  EXPECT_THAT(encode(encoding, -most), ElementsAre(0));
}

TEST(PiecewiseLinear, NoNumberStaysNone) {
  EXPECT_TRUE(std::isnan(encode(PiecewiseLinear({0, 1}), NAN)[0]));
}

TEST(PiecewiseLinear, WithoutEdgesThereIsNothingToDo) {
  EXPECT_TRUE(PiecewiseLinear().is_identity());
}

}  // namespace
}  // namespace emblem
