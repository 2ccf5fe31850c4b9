#include "init/label_choice.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Counted {
  const char* text;
  int count;
};

ColumnProfile label_of(std::initializer_list<Counted> values) {
  ColumnProfile label;
  label.name = "clk";
  for (const Counted& value : values)
    for (int i = 0; i < value.count; ++i) label.add_text(value.text);
  return label;
}

std::string positive_of(std::initializer_list<Counted> values) {
  return choose_label(label_of(values), "", 0).positive;
}

std::string problem_of(const ColumnProfile& label, const std::string& positive = "") {
  try {
    choose_label(label, positive, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

TEST(LabelChoice, WhatTheLoaderReadsNeedsNoPositiveValue) {
  EXPECT_EQ(positive_of({{"0", 3}, {"1", 1}}), "");
  EXPECT_EQ(positive_of({{"0.0", 3}, {"1.0", 1}}), "");
  EXPECT_EQ(positive_of({{"True", 3}, {" False", 1}}), "");
  EXPECT_EQ(positive_of({{"yes", 3}, {"no", 1}, {"Y", 1}}), "");
  EXPECT_DOUBLE_EQ(choose_label(label_of({{"0", 3}, {"1", 1}}), "", 0).share, 0.25);
}

TEST(LabelChoice, OfTwoValuesTheLargerThePositiveOrTheRarerIsOne) {
  EXPECT_EQ(positive_of({{"1", 3}, {"2", 1}}), "2");
  EXPECT_EQ(positive_of({{"1", 3}, {"-1", 9}}), "1");
  EXPECT_EQ(positive_of({{" 50000+.", 9}, {" - 50000.", 1}}), "50000+.");
  EXPECT_EQ(positive_of({{">50K", 9}, {"<=50K", 1}}), ">50K");
  EXPECT_EQ(positive_of({{"benign", 9}, {"malignant", 20}}), "malignant");
  EXPECT_EQ(positive_of({{"churned", 9}, {"not churned", 1}}), "churned");
  const LabelChoice guess = choose_label(label_of({{"cat", 2}, {"dog", 6}}), "", 0);
  EXPECT_EQ(guess.positive, "cat");
  EXPECT_TRUE(guess.is_guess);
  EXPECT_DOUBLE_EQ(guess.share, 0.25);
}

TEST(LabelChoice, MoreThanTwoValuesNeedAPositiveOne) {
  const ColumnProfile ratings = label_of({{"1", 1}, {"2", 1}, {"3", 2}, {"4", 3}, {"5", 3}});
  EXPECT_EQ(problem_of(ratings),
            "label \"clk\" has 5 values: \"4\" (30.0 %), \"5\" (30.0 %), \"3\" (20.0 %), \"1\" "
            "(10.0 %), \"2\" (10.0 %); models learn two, 0 and 1: give the value that is 1 with "
            "--label-positive (all others are 0)");
  EXPECT_EQ(choose_label(ratings, "5", 0).positive, "5");
  EXPECT_DOUBLE_EQ(choose_label(ratings, "5", 0).share, 0.3);
  EXPECT_THAT(problem_of(ratings, "6"), HasSubstr("no row of the sample has \"6\""));
  ColumnProfile price;
  price.name = "price";
  for (int i = 0; i < 100; ++i) price.add_text(std::to_string(i) + ".5");
  EXPECT_THAT(problem_of(price), HasSubstr("has 100 values, but models learn two"));
}

TEST(LabelChoice, OneClassIsAWarning) {
  EXPECT_THAT(choose_label(label_of({{"0", 3}}), "", 0).warnings[0],
              HasSubstr("all 3 sampled rows have the label 0"));
  EXPECT_THAT(choose_label(label_of({{"0", 3}, {"1", 1}}), "", 0).warnings, IsEmpty());
}

TEST(LabelChoice, MissingLabelsAreBadRows) {
  const ColumnProfile label = label_of({{"0", 3}, {"1", 1}, {"", 2}, {"NA", 1}});
  EXPECT_THAT(problem_of(label), HasSubstr("is missing in 3 of 7 sampled rows"));
  EXPECT_EQ(choose_label(label, "", 3).share, 0.25);
}

TEST(LabelChoice, CandidatesAreNamed) {
  DataProfile data;
  data.columns = {label_of({{"0", 3}, {"1", 1}}), label_of({{"a", 1}, {"b", 1}, {"c", 1}})};
  EXPECT_EQ(missing_label_problem(data),
            "--label NAME is required: the column to predict; columns with two values: \"clk\" "
            "(\"0\" or \"1\")");
  data.columns.erase(data.columns.begin());
  EXPECT_EQ(missing_label_problem(data),
            "--label NAME is required: the column to predict; no column has two values; the "
            "columns are \"clk\"");
}

}  // namespace
}  // namespace emblem
