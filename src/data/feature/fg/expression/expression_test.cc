#include "data/feature/fg/expression/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/math/random.h"
#include "data/feature/fg/expression/expression_functions.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

const std::vector<std::string> kVariables = {"x", "y", "v", "w"};

std::vector<double> evaluate(const std::string& text, const std::vector<std::vector<double>>& of,
                             double fill = std::nan("")) {
  const Expression expression = Expression::parse(text, kVariables, "expression");
  std::vector<Expression::Values> values(of.begin(), of.end());
  Expression::Workspace workspace;
  const Expression::Values result = expression.evaluate(values, fill, workspace);
  return {result.begin(), result.end()};
}

double number(const std::string& text, double x = 0, double y = 0) {
  return evaluate(text, {{x}, {y}, {1, 2, 3}, {4, 5, 7}})[0];
}

std::string error_of(const std::string& text) {
  try {
    Expression::parse(text, kVariables, "expression");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Expression, OperatorsHaveTheirPrecedence) {
  EXPECT_EQ(number("1 + 2 * 3"), 7);
  EXPECT_EQ(number("(1 + 2) * 3"), 9);
  EXPECT_EQ(number("8 / 4 / 2"), 1);
  EXPECT_EQ(number("10 - 4 - 3"), 3);
  EXPECT_EQ(number("2 * 3 ^ 2"), 18);
  EXPECT_EQ(number("2 ^ 3 ^ 2"), 512);
  EXPECT_EQ(number("-2 ^ 2"), -4);
  EXPECT_EQ(number("2 ^ -1"), 0.5);
  EXPECT_EQ(number("1 + 1 == 2"), 1);
  EXPECT_EQ(number("1 < 2 == 1"), 1);
  EXPECT_EQ(number("1 || 0 && 0"), 1);
  EXPECT_EQ(number("4 | 2 & 3 == 3"), 4 | (2 & 1));
  EXPECT_EQ(number("0 && 1 | 1"), 0);
  EXPECT_EQ(number("!x + 1"), 2);
  EXPECT_EQ(number("--3"), 3);
}

TEST(Expression, TheChoiceIsRightToLeft) {
  EXPECT_EQ(number("x > 18 ? 1 : 0", 20), 1);
  EXPECT_EQ(number("x > 18 ? 1 : 0", 18), 0);
  EXPECT_EQ(number("x == 1 ? 10 : x == 2 ? 20 : 30", 2), 20);
  EXPECT_EQ(number("x == 1 ? 10 : x == 2 ? 20 : 30", 3), 30);
  EXPECT_EQ(number("x ? y ? 1 : 2 : 3", 1, 0), 2);
  EXPECT_EQ(number("x == y ? 1 : 0", 5, 5), 1);
}

TEST(Expression, NumbersAreWrittenAsUsual) {
  EXPECT_EQ(number("1.5e2"), 150);
  EXPECT_EQ(number(".25"), 0.25);
  EXPECT_EQ(number("  3\t"), 3);
  EXPECT_DOUBLE_EQ(number("_pi"), 3.14159265358979323846);
  EXPECT_DOUBLE_EQ(number("ln(_e)"), 1);
}

struct Vector {
  const char* text;
  double x, expected;
};

TEST(Expression, FunctionsOfNumbers) {
  const Vector vectors[] = {
      {"sin(x)", 0.5, std::sin(0.5)},
      {"cos(x)", 0.5, std::cos(0.5)},
      {"tan(x)", 0.5, std::tan(0.5)},
      {"asin(x)", 0.5, std::asin(0.5)},
      {"acos(x)", 0.5, std::acos(0.5)},
      {"atan(x)", 0.5, std::atan(0.5)},
      {"sinh(x)", 0.5, std::sinh(0.5)},
      {"cosh(x)", 0.5, std::cosh(0.5)},
      {"tanh(x)", 0.5, std::tanh(0.5)},
      {"asinh(x)", 0.5, std::asinh(0.5)},
      {"acosh(x)", 2, std::acosh(2.0)},
      {"atanh(x)", 0.5, std::atanh(0.5)},
      {"log2(x)", 8, 3},
      {"log10(x)", 1000, 3},
      {"log(x)", 2, std::log(2.0)},
      {"ln(x)", 2, std::log(2.0)},
      {"log(x+3)", 4, std::log(7.0)},
      {"exp(x)", 1, std::exp(1.0)},
      {"sqrt(x)", 9, 3},
      {"sign(x)", -7, -1},
      {"sign(x)", 0, 0},
      {"abs(x)", -2.5, 2.5},
      {"rint(x)", 2.5, 2},
      {"rint(x)", 3.5, 4},
      {"floor(x)", -1.5, -2},
      {"ceil(x)", -1.5, -1},
      {"trunc(x)", -1.7, -1},
      {"round(x)", 2.5, 3},
      {"round(x)", -2.5, -3},
      {"roundp(x, 2)", 3.14159, 3.14},
      {"mod(x, 3)", 7, 1},
      {"sigmoid(x)", 0, 0.5},
      {"isnan(x)", std::nan(""), 1},
      {"isnan(x)", 1, 0},
      {"min(x, 2, 3)", 1, 1},
      {"max(x, 2, 3)", 1, 3},
      {"sum(x, 2, 3)", 1, 6},
      {"avg(x, 2, 3)", 1, 2},
  };
  for (const Vector& vector : vectors)
    EXPECT_DOUBLE_EQ(number(vector.text, vector.x), vector.expected) << vector.text;
}

TEST(Expression, DistancesAreInKilometres) {
  // Beijing to Shanghai.
  EXPECT_NEAR(number("sphere_dist(116.4074, 39.9042, 121.4737, 31.2304)"), 1067, 2);
  EXPECT_NEAR(number("haversine(116.4074, 39.9042, 121.4737, 31.2304)"), 1067, 2);
  EXPECT_EQ(number("haversine(10, 20, 10, 20)"), 0);
}

TEST(Expression, FunctionsOfVectors) {
  EXPECT_EQ(number("len(v)"), 3);
  EXPECT_EQ(number("squared_norm(v)"), 14);
  EXPECT_DOUBLE_EQ(number("l2_norm(v)"), std::sqrt(14.0));
  EXPECT_EQ(number("dot(v, w)"), 35);
  EXPECT_DOUBLE_EQ(number("euclid_dist(v, w)"), std::sqrt(34.0));
  EXPECT_NEAR(number("corr(v, w)"), 0.98198, 1e-5);
  EXPECT_DOUBLE_EQ(number("variance(v)"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(number("pop_variance(v)"), 1);
  EXPECT_DOUBLE_EQ(number("std_dev(v)"), std::sqrt(2.0 / 3));
  EXPECT_DOUBLE_EQ(number("pop_std_dev(v)"), 1);
  EXPECT_EQ(number("reduce_min(v)"), 1);
  EXPECT_EQ(number("reduce_max(v)"), 3);
  EXPECT_EQ(number("reduce_sum(v)"), 6);
  EXPECT_EQ(number("reduce_mean(v)"), 2);
  EXPECT_EQ(number("reduce_prod(v)"), 6);
  EXPECT_EQ(number("dot(v + 1, w) / x", 2), (35 + 16) / 2.0);
}

TEST(Expression, OneNumberGoesWithEachOfSeveral) {
  EXPECT_THAT(evaluate("x + v", {{10}, {}, {1, 2, 3}, {}}), ElementsAre(11, 12, 13));
  EXPECT_THAT(evaluate("v + x", {{10}, {}, {1, 2, 3}, {}}), ElementsAre(11, 12, 13));
  EXPECT_THAT(evaluate("v - w", {{}, {}, {1, 2}, {3, 5}}), ElementsAre(-2, -3));
  EXPECT_THAT(evaluate("max(v, 2)", {{}, {}, {1, 2, 3}, {}}), ElementsAre(2, 2, 3));
  EXPECT_THAT(evaluate("v > 1 ? v : x", {{9}, {}, {1, 2, 3}, {}}), ElementsAre(9, 2, 3));
}

TEST(Expression, WhatIsNotThereIsFilled) {
  EXPECT_THAT(evaluate("v + w", {{}, {}, {1, 2, 3}, {4, 5}}), ElementsAre(5, 7, IsNan()));
  EXPECT_THAT(evaluate("v + w", {{}, {}, {1, 2, 3}, {4, 5}}, 0), ElementsAre(5, 7, 3));
  EXPECT_THAT(evaluate("dot(v, w)", {{}, {}, {1, 2, 3}, {4, 5}}, 1), ElementsAre(17));
  EXPECT_THAT(evaluate("x + 1", {{}, {}, {}, {}}, 6), ElementsAre(7));
}

TEST(Expression, ErrorsNameThePosition) {
  EXPECT_THAT(error_of("x + * y"), HasSubstr("position 5: expected a number"));
  EXPECT_THAT(error_of("log(x"), HasSubstr("position 6: expected \")\", found the end"));
  EXPECT_THAT(error_of("x y"), HasSubstr("position 3: expected an operator or the end"));
  EXPECT_THAT(error_of(""), HasSubstr("position 1: expected a number"));
  EXPECT_THAT(error_of("log(z)"), HasSubstr("position 5: there is no variable \"z\""));
  EXPECT_THAT(error_of("lg(x)"), HasSubstr("position 1: there is no function \"lg\""));
  EXPECT_THAT(error_of("sqr(x)"), HasSubstr("did you mean \"sqrt\"?"));
  EXPECT_THAT(error_of("log + 1"), HasSubstr("log is a function; write log(...)"));
  EXPECT_THAT(error_of("log(x, y)"), HasSubstr("log has 2 arguments, expected 1"));
  EXPECT_THAT(error_of("dot(v)"), HasSubstr("dot has 1 arguments, expected 2"));
  EXPECT_THAT(error_of("min()"), HasSubstr("min has 0 arguments, expected at least 1"));
  EXPECT_THAT(error_of("x ? 1"), HasSubstr("expected \":\""));
  EXPECT_THAT(error_of("x $ 1"), HasSubstr("position 3: \"$\" is not an operator"));
  EXPECT_THAT(error_of("rnd()"), HasSubstr("rnd() is not supported"));
  EXPECT_THAT(error_of("1e999"), HasSubstr("too large"));
}

TEST(Expression, NestingIsLimited) {
  EXPECT_EQ(number(std::string(50, '(') + "1" + std::string(50, ')')), 1);
  EXPECT_THAT(error_of(std::string(100000, '(')), HasSubstr("nested too deep"));
  EXPECT_THAT(error_of(std::string(100000, '-') + "1"), HasSubstr("nested too deep"));
  std::string choices = "1";
  for (int i = 0; i < 10000; ++i) choices = "1?1:" + choices;
  EXPECT_THAT(error_of(choices), HasSubstr("nested too deep"));
  std::string sum = "1";
  for (int i = 1; i < 5000; ++i) sum += "+1";
  EXPECT_EQ(number(sum), 5000);
}

// Random texts are parsed or refused; what is parsed can be evaluated.
TEST(Expression, AnyTextIsParsedOrRefused) {
  std::vector<std::string> words = {
      "x", "y",  "v",  "w",   "1",    "2.5",   "(",  ")",
      ",", " ",  "?",  ":",   "+",    "-",     "*",  "/",
      "^", "|",  "||", "&",   "&&",   "<",     "<=", "==",
      "!", "!=", ">",  "_pi", "\xff", "1e308", "\"", std::string(1, '\0')};
  for (const std::string& name : function_names()) words.push_back(name);
  Random random(17);
  int parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const uint64_t length = random.below(12);
    for (uint64_t i = 0; i < length; ++i) {
      if (random.below(8) == 0)
        text += static_cast<char>(random.below(256));
      else
        text += words[random.below(words.size())];
    }
    try {
      evaluate(text, {{1.5}, {-2}, {1, 2, 3}, {4, 5}});
      ++parsed;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("position "));
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace emblem
