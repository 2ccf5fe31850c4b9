#include "kernels/packed_weights.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"

namespace emblem::cpu {
namespace {

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Random random{seed};
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = random.uniform() - 0.5f;
  return values;
}

float rounded(float value, DType type) {
  return type == DType::kBf16 ? Bf16::from(value).to_float() : value;
}

class PackedWeightsTest : public testing::TestWithParam<DType> {
 protected:
  static PackedWeights packed(const std::vector<float>& w, int64_t units, int64_t inputs) {
    PackedWeights weights;
    weights.assign({w.data(), units, inputs}, GetParam());
    return weights;
  }
};

TEST_P(PackedWeightsTest, GivesThePlainProductForShapesOfAllKinds) {
  for (const int64_t rows : {1, 2, 3, 5, 6, 13, 64, 200}) {
    for (const auto& [inputs, units] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 16}, {13, 40}, {100, 65}, {1100, 9}}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << inputs << " x " << units);
      const auto x = random_floats(rows * inputs, 1), w = random_floats(units * inputs, 2);
      std::vector<float> y(static_cast<size_t>(rows * units), 7.0f), back(y), sum(y);
      const PackedWeights weights = packed(w, units, inputs);
      weights.multiply({x.data(), rows, inputs}, {y.data(), rows, units});
      weights.multiply({x.data(), rows, inputs}, {sum.data(), rows, units}, true);
      // The same weights as [inputs, units].
      std::vector<float> turned(w.size());
      for (int64_t u = 0; u < units; ++u)
        for (int64_t k = 0; k < inputs; ++k) turned[k * units + u] = w[u * inputs + k];
      ThreadPool threads(3);
      PackedWeights of_turned;
      of_turned.assign({.threads = &threads}, {turned.data(), inputs, units}, Transpose::kYes,
                       GetParam());
      of_turned.multiply({x.data(), rows, inputs}, {back.data(), rows, units});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t u = 0; u < units; ++u) {
          double expected = 0;
          for (int64_t k = 0; k < inputs; ++k)
            expected += double{rounded(x[r * inputs + k], GetParam())} *
                        rounded(w[u * inputs + k], GetParam());
          ASSERT_NEAR(y[r * units + u], expected, 5e-5);
          ASSERT_NEAR(back[r * units + u], expected, 5e-5);
          ASSERT_NEAR(sum[r * units + u], expected + 7, 5e-5);
        }
      }
    }
  }
}

TEST_P(PackedWeightsTest, ARowDoesNotDependOnTheRowsBesideIt) {
  constexpr int64_t kRows = 71, kInputs = 1079, kUnits = 83;
  const auto x = random_floats(kRows * kInputs, 3), w = random_floats(kUnits * kInputs, 4);
  const PackedWeights weights = packed(w, kUnits, kInputs);
  std::vector<float> all(kRows * kUnits), part(kRows * kUnits);
  weights.multiply({x.data(), kRows, kInputs}, {all.data(), kRows, kUnits});
  for (const int64_t count : {1, 2, 3, 4, 7, 9, 11, 20}) {
    for (int64_t row = 0; row + count <= kRows; row += 5) {
      weights.multiply({x.data() + row * kInputs, count, kInputs}, {part.data(), count, kUnits});
      ASSERT_TRUE(
          std::equal(part.begin(), part.begin() + count * kUnits, all.begin() + row * kUnits))
          << count << " rows from " << row;
    }
  }
}

// There few rows may be multiplied in another way than many.
TEST_P(PackedWeightsTest, ARowDoesNotDependOnTheRowsBesideItInWideLayers) {
  constexpr int64_t kRows = 40, kInputs = 517, kUnits = 530;
  auto x = random_floats(kRows * kInputs, 3);
  const auto w = random_floats(kUnits * kInputs, 4), bias = random_floats(kUnits, 5);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= std::exp2f(static_cast<float>(i % 61) - 40.0f);
  const PackedWeights weights = packed(w, kUnits, kInputs);
  const Finish finish{.bias = bias.data(), .relu = true};
  std::vector<float> all(kRows * kUnits, 0.25f), part(kRows * kUnits);
  weights.multiply({x.data(), kRows, kInputs}, {all.data(), kRows, kUnits}, true, finish);
  for (const int64_t count : {1, 2, 5, 15, 16, 17, 33}) {
    std::fill(part.begin(), part.end(), 0.25f);
    for (const int64_t unit : {int64_t{0}, 4 * PackedWeights::kAlign}) {  // the units in two parts
      const int64_t units = unit == 0 ? 4 * PackedWeights::kAlign : kUnits - unit;
      weights.multiply({x.data() + 3 * kInputs, count, kInputs}, unit,
                       {part.data() + unit, count, units, kUnits}, true,
                       {.bias = bias.data() + unit, .relu = true});
    }
    ASSERT_TRUE(std::equal(part.begin(), part.begin() + count * kUnits, all.begin() + 3 * kUnits))
        << count << " rows";
  }
}

TEST_P(PackedWeightsTest, PartsOfTheUnitsMakeTheWhole) {
  constexpr int64_t kRows = 3, kInputs = 20, kUnits = 150;
  const auto x = random_floats(kRows * kInputs, 3), w = random_floats(kUnits * kInputs, 4);
  const PackedWeights weights = packed(w, kUnits, kInputs);
  std::vector<float> all(kRows * kUnits), parts(kRows * kUnits);
  weights.multiply({x.data(), kRows, kInputs}, {all.data(), kRows, kUnits});
  for (int64_t unit = 0; unit < kUnits; unit += PackedWeights::kAlign) {
    const int64_t count = std::min(PackedWeights::kAlign, kUnits - unit);
    weights.multiply({x.data(), kRows, kInputs}, unit, {parts.data() + unit, kRows, count, kUnits});
  }
  EXPECT_EQ(all, parts);
}

TEST_P(PackedWeightsTest, WritesOnlyItsPartOfAWiderMatrix) {
  const auto x = random_floats(2 * 5, 5), w = random_floats(3 * 5, 6);
  std::vector<float> y(2 * 10, 9.0f);
  packed(w, 3, 5).multiply({x.data(), 2, 5}, {y.data() + 4, 2, 3, 10});
  for (const int64_t at : {0, 3, 7, 9, 10, 13, 17, 19}) EXPECT_EQ(y[at], 9.0f);
  EXPECT_NE(y[4], 9.0f);
}

INSTANTIATE_TEST_SUITE_P(Types, PackedWeightsTest, testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace emblem::cpu
