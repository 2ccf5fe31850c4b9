#include "data/feature/fg/test_operator.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string expr(const std::string& expression, const std::string& settings = "") {
  return "expr_feature { expression: '" + expression +
         "' variables: 'user:a' variables: 'item:b' " + settings + " }";
}

TEST(ExprFeature, AMissingVariableHasNoValue) {
  const TestOutput out =
      apply_operator(expr("a+b"), {{{"0.2", "", "0.3"}}, {{"0.2", "0.2", "0.2"}}});
  EXPECT_EQ(out.type, ColumnType::kFloat);
  EXPECT_THAT(out.cells, ElementsAre(Bag{"0.4"}, Bag{}, Bag{"0.5"}));
}

TEST(ExprFeature, FillMissingTakesThePlaceOfMissingVariables) {
  EXPECT_THAT(apply_operator(expr("a+b", "fill_missing: 1"), {{{"", "2"}}, {{"0.5", "3"}}}).cells,
              ElementsAre(Bag{"1.5"}, Bag{"5"}));
  EXPECT_THAT(apply_operator(expr("isnan(a) ? b : a"), {{{"", "2"}}, {{"0.5", "3"}}}).cells,
              ElementsAre(Bag{"0.5"}, Bag{"2"}));
}

TEST(ExprFeature, AConstantGoesWithAllRows) {
  EXPECT_THAT(apply_operator(expr("a+b"), {constant("0.2"), {{"0.2", "0.1", ""}}}).cells,
              ElementsAre(Bag{"0.4"}, Bag{"0.3"}, Bag{}));
}

TEST(ExprFeature, ProductsOfVectors) {
  EXPECT_THAT(apply_operator(expr("dot(a,b)", "separator: \",\""),
                             {{{"0.5,0.25", "", "3,4"}}, {{"2,4", "1,1", "1,0.5"}}})
                  .cells,
              ElementsAre(Bag{"2"}, Bag{}, Bag{"5"}));
}

TEST(ExprFeature, OneValueGoesWithEachOfSeveral) {
  EXPECT_THAT(
      apply_operator(expr("a*b", "separator: \",\""), {{{"1,2,3", "2"}}, {{"10", "5"}}}).cells,
      ElementsAre(Bag{"10", "20", "30"}, Bag{"10"}));
}

TEST(ExprFeature, ASequenceAndAValueOfTheRow) {
  const TestOutput out = apply_operator(expr("a-b"), {{{"10", "", ""}}, {{"2;3", "4", ""}, ";"}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"8"}, Bag{"7"}, Bag{}, Bag{}));
  EXPECT_THAT(out.sequence_offsets, ElementsAre(0, 2, 3, 4));
}

TEST(ExprFeature, WhatIsNoNumberIsMissing) {
  EXPECT_THAT(apply_operator(expr("a/b"), {{{"1", "0", "1"}}, {{"0", "0", "2"}}}).cells,
              ElementsAre(Bag{}, Bag{}, Bag{"0.5"}));
}

TEST(ExprFeature, VariablesHaveTheNamesOfTheirFields) {
  EXPECT_THAT(
      error_of_operator(expr("a + c"), 2),
      HasSubstr("feature \"f\": expression \"a + c\", position 5: there is no variable \"c\""));
  EXPECT_THAT(error_of_operator("expr_feature { expression: '1 +' }", 0), HasSubstr("position 4"));
}

TEST(ExprFeature, TextOfAnotherFeatureIsParsed) {
  Column text, number, out;
  text.type = ColumnType::kText;
  text.text = "1.5x";
  text.text_ends.assign({3, 4});
  number.type = ColumnType::kInt64;
  number.ints.assign({2, 2});
  const Column* const columns[] = {&text, &number};
  std::string problem;
  make_operator(spec_of(expr("a*b"), {{}, {}}))
      ->apply(columns, 2, out,
              [&](int64_t row, const std::string& what) { problem = cat(row, what); });
  EXPECT_THAT(read_output(out, 2).cells, ElementsAre(Bag{"3"}, Bag{}));
  EXPECT_THAT(problem, HasSubstr("1feature \"f\": a variable is text that is not a number"));
}

}  // namespace
}  // namespace emblem
