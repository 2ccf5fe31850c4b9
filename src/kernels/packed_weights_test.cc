#include "kernels/packed_weights.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "core/random.h"

namespace emblem::cpu {
namespace {

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random{seed};
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.uniform() - 0.5f;
  return values;
}

TEST(PackedWeightsTest, GivesThePlainProductForShapesOfAllKinds) {
  for (const int64_t rows : {1, 2, 3, 5, 6, 13, 64}) {
    for (const auto& [inputs, units] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 16}, {13, 40}, {100, 65}}) {
      const auto x = random_floats(rows * inputs, 1), w = random_floats(units * inputs, 2);
      std::vector<float> y(static_cast<size_t>(rows * units), 7.0f);
      const PackedWeights packed({w.data(), units, inputs});
      packed.multiply({x.data(), rows, inputs}, {y.data(), rows, units});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t u = 0; u < units; ++u) {
          double sum = 0;
          for (int64_t k = 0; k < inputs; ++k) sum += double{x[r * inputs + k]} * w[u * inputs + k];
          ASSERT_NEAR(y[r * units + u], sum, 1e-5) << rows << " x " << inputs << " x " << units;
        }
      }
    }
  }
}

TEST(PackedWeightsTest, ARowDoesNotDependOnTheRowsBesideIt) {
  constexpr int64_t kRows = 71, kInputs = 479, kUnits = 83;
  const auto x = random_floats(kRows * kInputs, 3), w = random_floats(kUnits * kInputs, 4);
  const PackedWeights packed({w.data(), kUnits, kInputs});
  std::vector<float> all(kRows * kUnits), part(kRows * kUnits);
  packed.multiply({x.data(), kRows, kInputs}, {all.data(), kRows, kUnits});
  for (const int64_t count : {1, 2, 3, 4, 7, 20}) {
    for (int64_t row = 0; row + count <= kRows; row += 5) {
      packed.multiply({x.data() + row * kInputs, count, kInputs}, {part.data(), count, kUnits});
      ASSERT_TRUE(
          std::equal(part.begin(), part.begin() + count * kUnits, all.begin() + row * kUnits))
          << count << " rows from " << row;
    }
  }
}

TEST(PackedWeightsTest, PartsOfTheUnitsMakeTheWhole) {
  constexpr int64_t kRows = 3, kInputs = 20, kUnits = 150;
  const auto x = random_floats(kRows * kInputs, 3), w = random_floats(kUnits * kInputs, 4);
  const PackedWeights packed({w.data(), kUnits, kInputs});
  std::vector<float> all(kRows * kUnits), parts(kRows * kUnits);
  packed.multiply({x.data(), kRows, kInputs}, {all.data(), kRows, kUnits});
  for (int64_t unit = 0; unit < kUnits; unit += PackedWeights::kAlign) {
    const int64_t count = std::min(PackedWeights::kAlign, kUnits - unit);
    packed.multiply({x.data(), kRows, kInputs}, unit, {parts.data() + unit, kRows, count, kUnits});
  }
  EXPECT_EQ(all, parts);
}

TEST(PackedWeightsTest, WritesOnlyItsPartOfAWiderMatrix) {
  const auto x = random_floats(2 * 5, 5), w = random_floats(3 * 5, 6);
  std::vector<float> y(2 * 10, 9.0f);
  PackedWeights({w.data(), 3, 5}).multiply({x.data(), 2, 5}, {y.data() + 4, 2, 3, 10});
  for (const int64_t at : {0, 3, 7, 9, 10, 13, 17, 19}) EXPECT_EQ(y[at], 9.0f);
  EXPECT_NE(y[4], 9.0f);
}

}  // namespace
}  // namespace emblem::cpu
