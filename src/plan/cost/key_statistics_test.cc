#include "plan/cost/key_statistics.h"

#include <gtest/gtest.h>

#include "core/math/random.h"

namespace emblem {
namespace {

TEST(KeyCounter, CountsDistinctKeysAtDoublingRows) {
  KeyCounter counter;
  for (int64_t batch = 0; batch < 5; ++batch) {
    const std::vector<int64_t> keys = {batch, batch + 1, 0, 0};
    counter.add(keys);
    counter.end_rows(2);
  }
  EXPECT_EQ(counter.rows(), 10);
  EXPECT_EQ(counter.lookups(), 20);
  const DistinctKeys keys = counter.distinct(0);
  // 2 rows: {0, 1}; 4: 0..2; 8: 0..4; 10: 0..5.
  EXPECT_EQ(keys.points(), (std::vector<DistinctKeys::Point>{{2, 2}, {4, 3}, {8, 5}, {10, 6}}));
  EXPECT_DOUBLE_EQ(keys.lookups_per_row(), 2.0);
  EXPECT_NEAR(keys.at(4), 3.0, 1e-9);
  EXPECT_GT(keys.at(100), 6.0);
  EXPECT_DOUBLE_EQ(counter.share_of_hottest(1), 11.0 / 20.0);  // key 0
}

TEST(DistinctKeys, IsNeverMoreThanTheLookupsOrTheRowsOfTheTable) {
  const DistinctKeys keys({{10, 10}, {20, 20}}, 1.0, 50);
  EXPECT_DOUBLE_EQ(keys.at(40), 40.0);
  EXPECT_DOUBLE_EQ(keys.at(1000), 50.0);
  EXPECT_DOUBLE_EQ(keys.at(0), 0.0);
  EXPECT_LE(DistinctKeys({{10, 10}, {20, 19}}, 1.0, 0).at(1), 1.0);
}

TEST(DistinctKeys, ExtrapolatesUniformKeysOfALargeTableWell) {
  Random random{.seed = 3};
  KeyCounter counter;
  std::vector<int64_t> keys(1000);
  for (int batch = 0; batch < 16; ++batch) {
    for (int64_t& key : keys) key = static_cast<int64_t>(random.below(1'000'000));
    counter.add(keys);
    counter.end_rows(1000);
  }
  EXPECT_NEAR(counter.distinct(1e6).at(128'000), 120'000, 8'000);  // 1e6 (1 - e^-0.128)
}

TEST(PowerLaw, MatchesACountOfDraws) {
  Random random{.seed = 5};
  constexpr int64_t kKeys = 2000;
  std::vector<double> ends;
  double sum = 0;
  for (int64_t k = 1; k <= kKeys; ++k)
    ends.push_back(sum += std::pow(static_cast<double>(k), -1.05));
  KeyCounter counter;
  for (int i = 0; i < 4096; ++i) {
    const double draw = static_cast<double>(random.uniform()) * sum;
    const auto key =
        static_cast<int64_t>(std::lower_bound(ends.begin(), ends.end(), draw) - ends.begin());
    counter.add({&key, 1});
  }
  counter.end_rows(4096);
  const double counted = counter.distinct(0).points().back().keys;
  EXPECT_NEAR(power_law_keys(kKeys, 1, 1.05, 4096, 0).points()[0].keys, counted, 0.05 * counted);
}

TEST(PowerLaw, ApproachesAllKeys) {
  const DistinctKeys keys = power_law_keys(100, 1, 1.05, 1000, 8);
  EXPECT_NEAR(keys.at(256'000), 100, 0.5);
  EXPECT_LE(keys.at(1e9), 100);
}

}  // namespace
}  // namespace emblem
