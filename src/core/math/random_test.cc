#include "core/math/random.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

namespace emblem {
namespace {

// These values are written into checkpoints and decide initial weights: a change breaks every file.
TEST(Hash, NeverChanges) {
  EXPECT_EQ(mix64(0), 0u);
  EXPECT_EQ(mix64(1), 0x5692161d100b05e5u);
  EXPECT_EQ(mix64(42), 0xa759ea27d4727622u);
  EXPECT_EQ(mix64(~uint64_t{0}), 0xb4d055fcf2cbbd7bu);
  EXPECT_EQ(hash_string(""), 0xe220a8397b1dcdafu);
  EXPECT_EQ(hash_string("a"), 0xd71dc9a9f6476249u);
  EXPECT_EQ(hash_string("12345678"), 0xe316c0fe562a0b3fu);
  EXPECT_EQ(hash_string("123456789"), 0xc0059558cd935c62u);
  EXPECT_EQ(hash_string("the quick brown fox"), 0x31683a8a655e0528u);
}

TEST(Random, NeverChanges) {
  EXPECT_EQ(random_bits(0, 0, 0), 0x33fe8bd4f9c57863u);
  EXPECT_EQ(random_bits(1, 2, 3), 0x57b834b23cdc9d17u);
  EXPECT_EQ(random_bits(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}), 0x12b2bf5b9232588du);
  EXPECT_EQ(random_uniform(1, 2, 3), 0.342654467f);
  EXPECT_EQ(random_uniform(7, 0, 0), 0.0657718778f);
  EXPECT_NEAR(random_normal(1, 2, 3), 0.112618878f, 1e-6);
  EXPECT_NEAR(random_normal(7, 0, 0), -0.982421875f, 1e-6);
  Random random{.seed = 5, .stream = 6};
  EXPECT_EQ(random.below(1000), 576u);
  EXPECT_EQ(random.below(1000), 547u);
  EXPECT_EQ(random.below(uint64_t{1} << 40), 879902851349u);
}

TEST(Hash, TellsAlikeStringsApart) {
  std::set<uint64_t> seen;
  size_t count = 0;
  for (const std::string prefix : {"", "a", "user:", "12345678"}) {
    for (int i = 0; i < 20000; ++i, ++count) seen.insert(hash_string(prefix + std::to_string(i)));
  }
  for (size_t zeros = 0; zeros < 64; ++zeros, ++count)
    seen.insert(hash_string(std::string(zeros, '\0')));
  EXPECT_EQ(seen.size(), count);
}

TEST(Hash, ChangesHalfOfTheBitsWithEachInputBit) {
  for (int bit = 0; bit < 64; ++bit) {
    int changed = 0;
    for (uint64_t i = 1; i <= 500; ++i) {
      const uint64_t x = random_bits(1, 0, i);
      changed += __builtin_popcountll(mix64(x) ^ mix64(x ^ (uint64_t{1} << bit)));
    }
    EXPECT_NEAR(changed / 500.0, 32.0, 1.5) << "bit " << bit;
  }
}

TEST(Random, IsUniform) {
  Random random{.seed = 11};
  std::array<int, 64> counts{};
  constexpr int kDraws = 640000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const float value = random.uniform();
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    ++counts[static_cast<size_t>(value * 64)];
    sum += value;
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_square, 110.0);  // 63 degrees of freedom: exceeded once in 5000 seeds
  EXPECT_NEAR(sum / kDraws, 0.5, 0.002);
}

TEST(Random, NormalHasTheMomentsOfTheNormalDistribution) {
  Random random{.seed = 12};
  constexpr int kDraws = 400000;
  double first = 0, second = 0, third = 0, fourth = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.normal();
    ASSERT_TRUE(std::isfinite(value));
    first += value;
    second += value * value;
    third += value * value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(first / kDraws, 0.0, 0.01);
  EXPECT_NEAR(second / kDraws, 1.0, 0.01);
  EXPECT_NEAR(third / kDraws, 0.0, 0.03);
  EXPECT_NEAR(fourth / kDraws, 3.0, 0.08);
}

TEST(Random, NeighbouringSeedsAndStreamsDoNotCorrelate) {
  const auto correlation = [](auto&& a, auto&& b) {
    double sum = 0;
    constexpr int kDraws = 100000;
    for (int i = 0; i < kDraws; ++i) sum += (a(i) - 0.5) * (b(i) - 0.5);
    return sum / kDraws * 12;
  };
  const auto draw = [](uint64_t seed, uint64_t stream) {
    return [=](uint64_t i) { return random_uniform(seed, stream, i); };
  };
  EXPECT_NEAR(correlation(draw(1, 0), draw(2, 0)), 0, 0.015);
  EXPECT_NEAR(correlation(draw(1, 0), draw(1, 1)), 0, 0.015);
  EXPECT_NEAR(correlation(draw(1, 0), draw(0, 1)), 0, 0.015);
  EXPECT_NEAR(correlation(draw(1, 5), [&](uint64_t i) { return draw(1, 5)(i + 1); }), 0, 0.015);
}

TEST(Random, BelowReachesEveryValueAndNeverTheBound) {
  Random random{.seed = 2};
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) {
    const uint64_t value = random.below(7);
    ASSERT_LT(value, 7u);
    ++counts[value];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, ASequenceGoesOnFromItsIndex) {
  Random whole{.seed = 4, .stream = 9};
  for (int i = 0; i < 10; ++i) whole.bits();
  Random resumed{.seed = 4, .stream = 9, .index = whole.index};
  EXPECT_EQ(resumed.bits(), whole.bits());
}

}  // namespace
}  // namespace emblem
