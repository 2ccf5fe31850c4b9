#include "data/feature/number/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::IsNan;

std::vector<float> normalized(const std::string& method, std::vector<float> values) {
  Normalizer::parse(method, "x").apply(values.data(), static_cast<int64_t>(values.size()));
  return values;
}

std::vector<float> by_expression(const std::string& expression, std::vector<float> values) {
  return normalized("method=expression,expr=" + expression, std::move(values));
}

TEST(NormalizerExpression, TakesAnyExpressionOfX) {
  EXPECT_THAT(by_expression("sign(x)", {-2, 0, 3}), ElementsAre(-1, 0, 1));
  EXPECT_THAT(by_expression("x>16?16:x", {3, 20}), ElementsAre(3, 16));
  EXPECT_THAT(by_expression("max(x, 0) + min(x, 2)", {-1, 5}), ElementsAre(-1, 7));
  EXPECT_THAT(by_expression("sqrt(log(x+1))", {0, 1}),
              ElementsAre(0, FloatNear(std::sqrt(std::log(2.0f)), 1e-6f)));
  EXPECT_THAT(by_expression("7", {1, 2}), ElementsAre(7, 7));
}

TEST(NormalizerExpression, IsTheSameForManyValues) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<float> results = by_expression("x*x/2", values);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(results[i], values[i] * values[i] / 2) << i;
}

TEST(NormalizerExpression, WhatIsNoFiniteNumberIsMissing) {
  EXPECT_THAT(by_expression("1/x", {0, 2}), ElementsAre(IsNan(), 0.5));
  EXPECT_THAT(by_expression("sqrt(x)", {-1, 4}), ElementsAre(IsNan(), 2));
}

TEST(NormalizerExpression, MistakesAreNamedWithTheirPosition) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      Normalizer::parse(text, "price");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error("method=expression,expr=log(y)"),
              HasSubstr("feature \"price\": normalizer expression \"log(y)\", position 5"));
  EXPECT_THAT(error("method=expression,expr=reduce_sum(x)"), HasSubstr("functions of vectors"));
  EXPECT_THAT(error("method=expression"), HasSubstr("expr is missing"));
  EXPECT_THAT(error("method=log1p,expr=x"), HasSubstr("unknown setting \"expr\""));
}

TEST(Normalizer, InfiniteNumbersStayInfiniteWithEveryMethod) {
  const float infinite = INFINITY;
  for (const char* method :
       {"method=log1p", "method=log,offset=3", "method=zscore,mean=1,standard_deviation=2",
        "method=minmax,min=0,max=4", "method=log10,threshold=1e-10,default=-10",
        "method=expression,expr=x>16?16:x", "method=expression,expr=log(x+3)"}) {
    const std::vector<float> results = normalized(method, {2, infinite, -infinite, 1});
    EXPECT_EQ(results[1], infinite) << method;
    EXPECT_EQ(results[2], -infinite) << method;
    EXPECT_EQ(results[0], normalized(method, {2})[0]) << method;
    EXPECT_EQ(results[3], normalized(method, {1})[0]) << method;
  }
}

// Vectors of TorchEasyRec's tests.
TEST(NormalizerVectors, Log10ZscoreAndMinmax) {
  EXPECT_THAT(normalized("method=log10,threshold=1e-10,default=-10", {100, 0}),
              ElementsAre(FloatNear(2, 1e-6f), -10));
  EXPECT_THAT(normalized("method=zscore,mean=0.1,standard_deviation=10.0", {0.2f}),
              ElementsAre(FloatNear(0.01f, 1e-7f)));
  EXPECT_THAT(normalized("method=minmax,min=0.1,max=0.4", {0.2f}),
              ElementsAre(FloatNear(1.0f / 3, 1e-6f)));
}

TEST(NormalizerVectors, LogarithmsAreScaledAndOutliersLimited) {
  EXPECT_THAT(normalized("method=log1p,mean=1,standard_deviation=2", {0, std::exp(3.0f) - 1}),
              ElementsAre(FloatNear(-0.5f, 1e-6f), FloatNear(1.0f, 1e-5f)));
  EXPECT_THAT(normalized("method=zscore,mean=1,standard_deviation=2,limit=3", {-1000, 3, 1000}),
              ElementsAre(-3, 1, 3));
}

}  // namespace
}  // namespace emblem
