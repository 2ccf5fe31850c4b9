#include "data/synth/zipf.h"

#include <gtest/gtest.h>

#include <vector>

namespace emblem {
namespace {

TEST(ZipfTest, ProbabilitiesAreProportionalToPowersAndSumToOne) {
  for (const double exponent : {0.0, 0.5, 1.0, 1.05, 2.0}) {
    const Zipf law(5000, exponent);
    double plain = 0, sum = 0;
    for (int64_t k = 1; k <= 5000; ++k) plain += std::pow(static_cast<double>(k), -exponent);
    for (int64_t k = 0; k < 5000; ++k) sum += law.probability(k);
    EXPECT_NEAR(sum, 1, 1e-6) << exponent;
    EXPECT_NEAR(law.probability(9), std::pow(10.0, -exponent) / plain, 1e-7) << exponent;
  }
}

TEST(ZipfTest, DrawsOccurAsOftenAsTheirProbabilitySays) {
  for (const double exponent : {0.0, 1.0, 1.05, 2.5}) {
    const int64_t values = 20;
    const int draws = 200'000;
    const Zipf law(values, exponent);
    std::vector<int> counts(values);
    Random random{3, 4};
    for (int i = 0; i < draws; ++i) ++counts.at(static_cast<size_t>(law.draw(random)));
    double chi_squared = 0;
    for (int64_t rank = 0; rank < values; ++rank) {
      const double expected = draws * law.probability(rank);
      chi_squared += (counts[rank] - expected) * (counts[rank] - expected) / expected;
    }
    EXPECT_LT(chi_squared, 43.8) << "exponent " << exponent;  // 19 degrees of freedom, 1 in 1000
  }
}

TEST(ZipfTest, LargeTablesAreDrawnToTheirLastValue) {
  const int64_t values = 40'000'000;
  const Zipf uniform(values, 0);
  Random random{1, 1};
  int64_t largest = 0;
  for (int i = 0; i < 10'000; ++i) {
    const int64_t rank = uniform.draw(random);
    ASSERT_GE(rank, 0);
    ASSERT_LT(rank, values);
    largest = std::max(largest, rank);
  }
  EXPECT_GT(largest, values / 1000 * 995);
}

TEST(ZipfTest, ATableOfOneValueHasOneRank) {
  const Zipf law(1, 1.05);
  Random random{1, 2};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(law.draw(random), 0);
  EXPECT_DOUBLE_EQ(law.probability(0), 1);
}

TEST(ScatterTest, IsABijectionThatDoesNotKeepTheOrder) {
  for (const int64_t values : {1, 2, 3, 10, 4096, 10007}) {
    const Scatter scatter(values, 7, 8);
    std::vector<bool> seen(static_cast<size_t>(values));
    int64_t ascents = 0;
    for (int64_t rank = 0; rank < values; ++rank) {
      const int64_t key = scatter(rank);
      ASSERT_GE(key, 0);
      ASSERT_LT(key, values);
      EXPECT_FALSE(seen[key]) << values;
      seen[key] = true;
      ascents += rank > 0 && scatter(rank - 1) < key;
    }
    if (values > 10) {
      EXPECT_LT(ascents, values * 7 / 10);
    }
  }
}

TEST(ScatterTest, StaysInRangeInTheLargestTable) {
  const Scatter scatter(Scatter::kMostValues, 1, 1);
  EXPECT_LT(scatter(Scatter::kMostValues - 1), Scatter::kMostValues);
  EXPECT_NE(scatter(0), scatter(Scatter::kMostValues - 1));
}

}  // namespace
}  // namespace emblem
