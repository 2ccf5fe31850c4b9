#include "core/math/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace emblem {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

TEST(ExactSum, IsExactWhereDoublesAre) {
  EXPECT_EQ(sum_of({}), 0.0);
  EXPECT_EQ(sum_of({0.5, 0.25}), 0.75);
  EXPECT_EQ(sum_of({1e300, 1.0, -1e300}), 1.0);
  EXPECT_EQ(sum_of({-3.0, 1.0}), -2.0);
  const double least = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(sum_of({least, least}), 2 * least);
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(sum_of({most, most, -most}), most);
  EXPECT_TRUE(std::isnan(sum_of({1.0, std::numeric_limits<double>::infinity()})));
}

TEST(ExactSum, DoesNotDependOnOrderOrParts) {
  std::mt19937_64 random(1);
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i)
    values.push_back(std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                static_cast<int>(random() % 120) - 100));
  const double expected = sum_of(values);
  long double close = 0;
  for (const double value : values) close += value;
  EXPECT_NEAR(static_cast<double>(close), expected, 1e-9 * std::abs(expected));
  for (int round = 0; round < 20; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    ExactSum parts[3], total;
    for (const double value : values) parts[random() % 3].add(value);
    for (const ExactSum& part : parts) total.add(part);
    EXPECT_EQ(total.value(), expected);
  }
}

}  // namespace
}  // namespace emblem
