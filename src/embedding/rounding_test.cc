#include "embedding/rounding.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/math/random.h"

namespace emblem {
namespace {

template <class W>
class StochasticRounding : public testing::Test {};
using Narrow = testing::Types<F16, Bf16>;
TYPED_TEST_SUITE(StochasticRounding, Narrow);

TYPED_TEST(StochasticRounding, GivesANeighbourWithTheProbabilityOfTheRemainder) {
  for (const float value : {0.0123f, -1.7f, 37.03f, 5.3e-5f, -2.2e-6f, 3e-8f, 60000.7f}) {
    double sum = 0;
    float low = INFINITY, high = -INFINITY;
    constexpr int kDraws = 40000;
    for (int step = 1; step <= kDraws; ++step) {
      const float rounded = round_stochastically<TypeParam>(value, rounding_draw(step), step % 64);
      ASSERT_EQ(TypeParam::from(rounded).to_float(), rounded) << value;
      sum += rounded;
      low = std::min(low, rounded);
      high = std::max(high, rounded);
    }
    ASSERT_LE(low, value);
    ASSERT_GE(high, value);
    // Six standard deviations of the mean of a coin between the neighbours.
    EXPECT_NEAR(sum / kDraws, value, 3.0 * (high - low) / std::sqrt(kDraws)) << value;
  }
}

TYPED_TEST(StochasticRounding, KeepsWhatFits) {
  Random random{.seed = 3};
  for (int i = 0; i < 2000; ++i) {
    const float value = TypeParam::from(random.normal() * std::exp(6 * random.normal())).to_float();
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(round_stochastically<TypeParam>(value, rounding_draw(i), i), value);
  }
  EXPECT_EQ(round_stochastically<TypeParam>(0.0f, rounding_draw(1), 0), 0.0f);
  EXPECT_EQ(round_stochastically<TypeParam>(INFINITY, rounding_draw(1), 0), INFINITY);
  EXPECT_TRUE(std::isnan(round_stochastically<TypeParam>(NAN, rounding_draw(1), 0)));
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(round_stochastically<TypeParam>(most, rounding_draw(1), 0), most);
}

TEST(StochasticRounding, OfAStepDependsOnPositionAndStep) {
  int up = 0;
  for (int i = 0; i < 64; ++i) up += round_stochastically<Bf16>(1.001f, rounding_draw(1), i) > 1;
  EXPECT_GT(up, 0);
  EXPECT_LT(up, 64);
  EXPECT_NE(rounding_draw(1), rounding_draw(2));
  EXPECT_NE(rounding_draw(0), kRoundToNearest);
}

}  // namespace
}  // namespace emblem
