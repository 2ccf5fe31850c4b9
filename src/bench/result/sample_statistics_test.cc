#include "bench/result/sample_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace emblem {
namespace {

TEST(Statistics, StudentsTAgreesWithPublishedTables) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.7062, 1e-3);
  EXPECT_NEAR(student_quantile(0.975, 2), 4.30265, 1e-4);
  EXPECT_NEAR(student_quantile(0.975, 10), 2.22814, 1e-4);
  EXPECT_NEAR(student_quantile(0.975, 1e6), 1.95997, 1e-4);
  EXPECT_NEAR(student_quantile(0.05, 5), -2.01505, 1e-4);
  EXPECT_NEAR(student_cdf(2.22814, 10), 0.975, 1e-5);
  EXPECT_DOUBLE_EQ(student_cdf(0, 3), 0.5);
}

TEST(Statistics, TheIntervalOfAMeanNeedsTwoValues) {
  EXPECT_FALSE(mean_interval(std::vector{1.0}).has_value());
  const auto interval = mean_interval(std::vector{1.0, 2.0, 3.0});
  EXPECT_NEAR(interval->low, 2 - 4.30265 / std::sqrt(3), 1e-4);
  EXPECT_NEAR(interval->high, 2 + 4.30265 / std::sqrt(3), 1e-4);
}

// t = 2.8947 with 5.5208 degrees of freedom; p by integrating the density numerically.
TEST(Statistics, WelchsTestAgreesWithANumericalIntegral) {
  const auto test = test_means(std::vector{1., 2., 3., 4.}, std::vector{3., 5., 7., 9., 11.});
  EXPECT_DOUBLE_EQ(test->difference, 4.5);
  EXPECT_NEAR(test->p, 0.030286, 1e-5);
  EXPECT_GT(test->interval.low, 0);
  EXPECT_NEAR(test->effect, 4.5 / std::sqrt((3 * 5.0 / 3 + 4 * 10.0) / 7) * (1 - 3.0 / 27), 1e-9);
}

TEST(Statistics, SamplesWithoutVarianceHaveAPValueOf0Or1) {
  EXPECT_EQ(test_means(std::vector{1., 1.}, std::vector{1., 1.})->p, 1);
  const auto differ = test_means(std::vector{1., 1.}, std::vector{2., 2.});
  EXPECT_EQ(differ->p, 0);
  EXPECT_TRUE(std::isinf(differ->effect));
  EXPECT_FALSE(test_means(std::vector{1.}, std::vector{1., 2.}).has_value());
}

TEST(Statistics, HolmsCorrectionKeepsTheOrderOfTests) {
  const auto adjusted = holm_adjusted(std::vector{0.04, 0.01, 0.03});
  EXPECT_NEAR(adjusted[0], 0.06, 1e-12);
  EXPECT_NEAR(adjusted[1], 0.03, 1e-12);
  EXPECT_NEAR(adjusted[2], 0.06, 1e-12);
}

// Published ranks of the ends: 1 at 6 values, 2 at 10, 4 at 15, 6 at 20, 10 at 30.
TEST(Statistics, MediansHaveTheIntervalsOfPublishedTables) {
  for (const auto& [n, rank] : {std::pair{6, 1}, {10, 2}, {15, 4}, {20, 6}, {30, 10}}) {
    std::vector<double> values;
    for (int i = n; i > 0; --i) values.push_back(i);
    EXPECT_EQ(median_of(values).value, (n + 1) / 2.0);
    EXPECT_EQ(median_of(values).interval, (Interval{1.0 * rank, n + 1.0 - rank})) << n;
  }
}

TEST(Statistics, TooFewValuesGiveAnUnboundedInterval) {
  EXPECT_TRUE(std::isinf(median_of({1., 2., 3.}).interval.high));
}

// Normal noise in which one value in five is an outlier, as on a machine with other load.
std::vector<double> noisy(std::mt19937& random, int n, double shift) {
  std::normal_distribution<double> normal(0, 0.03);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> values;
  for (int i = 0; i < n; ++i)
    values.push_back(shift + normal(random) * (uniform(random) < 0.2 ? 20 : 1));
  return values;
}

TEST(Statistics, IntervalsOfMediansHaveTheirCoverageInNoiseWithOutliers) {
  std::mt19937 random(7);
  int covered = 0, detected = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    covered += median_of(noisy(random, 30, 0)).interval.contains(0);
    detected += median_of(noisy(random, 30, 0.05)).interval.low > 0;
  }
  EXPECT_GE(covered, 1880);
  EXPECT_GE(detected, 1600);
}

}  // namespace
}  // namespace emblem
