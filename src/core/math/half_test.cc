#include "core/math/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/math/random.h"

namespace emblem {
namespace {

// What the bits mean, by the definition of the format: sign, exponent with bias, fraction.
double value_by_definition(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

struct F16Format {
  using Type = F16;
  static double value(uint16_t bits) { return value_by_definition(bits, 5, 10); }
};
struct Bf16Format {
  using Type = Bf16;
  static double value(uint16_t bits) { return value_by_definition(bits, 8, 7); }
};

template <class Format>
class Half : public testing::Test {};
using Formats = testing::Types<F16Format, Bf16Format>;
TYPED_TEST_SUITE(Half, Formats);

TYPED_TEST(Half, EveryPatternReadsAsTheFormatSaysAndConvertsBack) {
  using Type = typename TypeParam::Type;
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    const double expected = TypeParam::value(bits);
    const float value = Type{bits}.to_float();
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << pattern;
      ASSERT_TRUE(std::isnan(Type::from(value).to_float())) << pattern;
      continue;
    }
    ASSERT_EQ(value, expected) << pattern;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << pattern;
    ASSERT_EQ(Type::from(value).bits, bits) << pattern;
  }
}

// A plain oracle: between the two neighbours take the nearer one, and at a tie the even one.
// Infinity counts as the value that would follow the largest finite one.
template <class Format>
uint16_t nearest_even(float value, uint16_t infinity) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  uint32_t low = 0, high = infinity;  // the values of patterns rise
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (Format::value(static_cast<uint16_t>(middle)) <= magnitude ? low : high) = middle;
  }
  const double step_down = Format::value(static_cast<uint16_t>(low));
  const double step_up = high == infinity
                             ? 2 * step_down - Format::value(static_cast<uint16_t>(low - 1))
                             : Format::value(static_cast<uint16_t>(high));
  const double down = magnitude - step_down, up = step_up - magnitude;
  const bool take_low = down < up || (down == up && low % 2 == 0);
  return static_cast<uint16_t>(sign | (take_low ? low : high));
}

TYPED_TEST(Half, RoundsToNearestEven) {
  using Type = typename TypeParam::Type;
  const uint16_t infinity = Type::from(std::numeric_limits<float>::infinity()).bits;
  Random random{.seed = 3};
  for (int i = 0; i < 200000; ++i) {
    const float value = detail::bits_float(static_cast<uint32_t>(random.bits()));
    if (std::isnan(value) || std::isinf(value)) continue;
    ASSERT_EQ(Type::from(value).bits, nearest_even<TypeParam>(value, infinity)) << value;
  }
}

TYPED_TEST(Half, RoundsTiesAndTheirNeighboursToNearestEven) {
  using Type = typename TypeParam::Type;
  const uint16_t infinity = Type::from(std::numeric_limits<float>::infinity()).bits;
  for (uint32_t pattern = 0; pattern + 1 < infinity; ++pattern) {
    const double tie = (TypeParam::value(static_cast<uint16_t>(pattern)) +
                        TypeParam::value(static_cast<uint16_t>(pattern + 1))) /
                       2;
    const auto middle = static_cast<float>(tie);
    for (const float value :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY), -middle}) {
      ASSERT_EQ(Type::from(value).bits, nearest_even<TypeParam>(value, infinity)) << value;
    }
  }
}

TYPED_TEST(Half, WhatIsTooLargeBecomesInfinityAndNanStaysNan) {
  using Type = typename TypeParam::Type;
  EXPECT_EQ(Type::from(std::numeric_limits<float>::max()).to_float(), INFINITY);
  EXPECT_EQ(Type::from(-std::numeric_limits<float>::max()).to_float(), -INFINITY);
  EXPECT_TRUE(std::isnan(Type::from(std::numeric_limits<float>::quiet_NaN()).to_float()));
  EXPECT_TRUE(std::isnan(Type::from(detail::bits_float(0x7f800001u)).to_float()))
      << "a NaN with low bits alone";
}

TEST(F16, OverflowsExactlyAtTheMiddleBehindItsLargestValue) {
  EXPECT_EQ(F16::from(65504.0f).to_float(), 65504.0f);
  EXPECT_EQ(F16::from(std::nextafter(65520.0f, 0.0f)).to_float(), 65504.0f);
  EXPECT_EQ(F16::from(65520.0f).to_float(), INFINITY);
}

TEST(DType, HasSizesAndNames) {
  EXPECT_EQ(size_of(DType::kF32), 4);
  EXPECT_EQ(size_of(DType::kF16), 2);
  EXPECT_EQ(size_of(DType::kBf16), 2);
  EXPECT_STREQ(name_of(DType::kBf16), "bf16");
}

}  // namespace
}  // namespace emblem
