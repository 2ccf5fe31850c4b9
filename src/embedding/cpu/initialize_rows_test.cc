#include "embedding/cpu/initialize_rows.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/device/device_test.h"
#include "embedding/cpu/rows_on_device_test.h"

namespace emblem {
namespace {

class InitializeRowsTest : public DeviceTest {};

TEST_P(InitializeRowsTest, DrawsFromSeedKeyAndPositionAlone) {
  const Initializer normal{Initializer::Kind::kNormal, 1.0f, 2.0f};
  RowsOnDevice rows(context_, 8, 5, DType::kF32, 2);
  const auto numbers = Buffer<uint32_t>::from(context_, {6, kNoRow, 1});
  const auto keys = Buffer<int64_t>::from(context_, {-4, 9, INT64_MIN});
  initialize_rows(context_, {.rows = rows.ref(),
                             .row_numbers = numbers.data(),
                             .keys = keys.data(),
                             .count = 3,
                             .initializer = normal,
                             .seed = 3,
                             .state = 0.25f,
                             .state_floats = 2});
  for (const auto& [row, key] : {std::pair<int, int64_t>{6, -4}, {1, INT64_MIN}}) {
    const auto values = rows.get(row);
    for (int d = 0; d < 5; ++d)
      EXPECT_NEAR(values.weights[d], normal(3, static_cast<uint64_t>(key), d), 1e-5f);
    EXPECT_THAT(values.state, testing::Each(0.25f));
  }
  for (const int untouched : {0, 2, 3, 4, 5, 7})
    EXPECT_THAT(rows.get(untouched).weights, testing::Each(0.0f));
}

TEST_P(InitializeRowsTest, NumbersRowsThroughWithoutAList) {
  const Initializer uniform{Initializer::Kind::kUniform, -1.0f, 1.0f};
  RowsOnDevice rows(context_, 8, 3, DType::kBf16, 0);
  initialize_rows(
      context_,
      {.rows = rows.ref(), .first_row = 2, .count = 5, .initializer = uniform, .seed = 3});
  for (int row = 2; row < 7; ++row) {
    for (int d = 0; d < 3; ++d) EXPECT_NEAR(rows.get(row).weights[d], uniform(3, row, d), 0.005);
  }
  EXPECT_THAT(rows.get(1).weights, testing::Each(0.0f));
  EXPECT_THAT(rows.get(7).weights, testing::Each(0.0f));
}

INSTANTIATE_TEST_SUITE_P(, InitializeRowsTest, testing::Values(Device::kCpu), device_name);

TEST(Initializer, HasTheMeanAndSpreadItPromises) {
  struct Expected {
    Initializer initializer;
    double mean, deviation, lowest, highest;
  };
  for (const auto& [initializer, mean, deviation, lowest, highest] :
       {Expected{{Initializer::Kind::kUniform, -2.0f, 4.0f}, 1.0, 6.0 / std::sqrt(12.0), -2.0, 4.0},
        Expected{{Initializer::Kind::kNormal, 1.0f, 3.0f}, 1.0, 3.0, -20.0, 20.0},
        Expected{{Initializer::Kind::kTruncatedNormal, 1.0f, 3.0f}, 1.0, 3.0 * 0.8796, -5.0, 7.0},
        Expected{{Initializer::Kind::kConstant, 0.7f, 0.0f}, 0.7, 0.0, 0.69, 0.71}}) {
    double sum = 0, squares = 0;
    const int count = 40000;
    for (int i = 0; i < count; ++i) {
      const double value = initializer(9, i / 8, i % 8);
      ASSERT_GE(value, lowest);
      ASSERT_LE(value, highest);
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / count, mean, 0.05);
    EXPECT_NEAR(std::sqrt(std::max(0.0, squares / count - sum / count * sum / count)), deviation,
                0.05);
  }
}

}  // namespace
}  // namespace emblem
