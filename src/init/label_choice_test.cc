#include "init/label_choice.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
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
  return choose_label(label_of(values), {}).positive;
}

std::string problem_of(const ColumnProfile& label, const std::string& positive = "") {
  try {
    choose_label(label, {.positive = positive});
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
  EXPECT_DOUBLE_EQ(choose_label(label_of({{"0", 3}, {"1", 1}}), {}).share, 0.25);
}

TEST(LabelChoice, OfTwoValuesTheLargerThePositiveOrTheRarerIsOne) {
  EXPECT_EQ(positive_of({{"1", 3}, {"2", 1}}), "2");
  EXPECT_EQ(positive_of({{"1", 3}, {"-1", 9}}), "1");
  EXPECT_EQ(positive_of({{" 50000+.", 9}, {" - 50000.", 1}}), "50000+.");
  EXPECT_EQ(positive_of({{">50K", 9}, {"<=50K", 1}}), ">50K");
  EXPECT_EQ(positive_of({{"benign", 9}, {"malignant", 20}}), "malignant");
  EXPECT_EQ(positive_of({{"Ja", 9}, {"Nein", 1}}), "Ja");
  EXPECT_EQ(positive_of({{"churned", 9}, {"not churned", 1}}), "churned");
  const LabelChoice guess = choose_label(label_of({{"cat", 2}, {"dog", 6}}), {});
  EXPECT_EQ(guess.positive, "cat");
  EXPECT_TRUE(guess.is_guess);
  EXPECT_DOUBLE_EQ(guess.share, 0.25);
}

TEST(LabelChoice, SeveralValuesAreClasses) {
  const ColumnProfile ratings = label_of({{"1", 2}, {"2", 2}, {"3", 2}, {"5", 3}, {"4", 3}});
  const LabelChoice stars = choose_label(ratings, {});
  EXPECT_EQ(stars.task, LabelTask::kClasses);
  EXPECT_THAT(stars.classes, ElementsAre("1", "2", "3", "4", "5")) << "in the order of numbers";
  const LabelChoice kinds = choose_label(label_of({{"cat", 2}, {"dog", 6}, {"eel", 3}}), {});
  EXPECT_EQ(kinds.task, LabelTask::kClasses);
  EXPECT_THAT(kinds.classes, ElementsAre("dog", "eel", "cat"));
  EXPECT_EQ(choose_label(ratings, {.positive = "5"}).positive, "5");
  EXPECT_DOUBLE_EQ(choose_label(ratings, {.positive = "5"}).share, 0.25);
  EXPECT_THAT(problem_of(ratings, "6"), HasSubstr("no row of the sample has \"6\""));
  EXPECT_EQ(choose_label(ratings, {.task = "number"}).task, LabelTask::kNumber);
  ColumnProfile names;
  for (int i = 0; i < 100; ++i) names.add_text("n" + std::to_string(i));
  EXPECT_THAT(problem_of(names), HasSubstr("100 values, too many for classes (up to 64): text"));
}

TEST(LabelChoice, ANumberInTwoSpellingsIsOneValue) {
  const ColumnProfile binary = label_of({{"1", 3}, {"1.0", 4}, {"0", 2}, {"0.0", 5}});
  EXPECT_EQ(choose_label(binary, {}).task, LabelTask::kBinary);
  EXPECT_EQ(choose_label(binary, {}).positive, "");
  EXPECT_DOUBLE_EQ(choose_label(binary, {}).share, 0.5);
  EXPECT_THAT(choose_label(label_of({{"2", 9}, {"2.0", 5}}), {}).warnings[0],
              HasSubstr("all 14 sampled rows have the label 1"));
  const ColumnProfile stars = label_of({{"1", 3}, {"1.0", 4}, {"2.0", 6}, {"2", 1}, {"3", 9}});
  const LabelChoice choice = choose_label(stars, {});
  EXPECT_EQ(choice.task, LabelTask::kClasses);
  EXPECT_THAT(choice.classes, ElementsAre("1", "2", "3"));
  EXPECT_DOUBLE_EQ(choice.share, 9.0 / 23);
  DataProfile data;
  data.columns = {binary};
  EXPECT_THAT(missing_label_problem(data), HasSubstr("columns with two values: \"clk\""));
}

TEST(LabelChoice, TextsThatAreNoClassesAreNamed) {
  ColumnProfile prices, days, mixed;
  for (int i = 0; i < 100; ++i) {
    prices.add_text("$" + std::to_string(1000 + i));
    days.add_text("2024-0" + std::to_string(i / 20 + 1) + "-" + std::to_string(i % 20 + 1));
    mixed.add_text(i % 20 == 0 ? "sold" : std::to_string(i));
  }
  EXPECT_THAT(problem_of(prices), HasSubstr("amounts like \"$10"));
  EXPECT_THAT(problem_of(prices), HasSubstr("labels are plain numbers like 1234.5"));
  EXPECT_THAT(problem_of(days), HasSubstr("dates like \"2024-0"));
  EXPECT_THAT(problem_of(mixed),
              HasSubstr("numbers in 95 of 100 sampled rows and text in others, as \"sold\""));
}

TEST(LabelChoice, ClassesWithFewRowsAreWarnedAbout) {
  const LabelChoice choice = choose_label(label_of({{"0", 30}, {"1", 20}, {"Total", 1}}), {});
  EXPECT_EQ(choice.task, LabelTask::kClasses);
  ASSERT_EQ(choice.warnings.size(), 1);
  EXPECT_THAT(choice.warnings[0],
              HasSubstr("1 of 3 classes has fewer than 5 rows (\"Total\"); remove these rows"));
  EXPECT_THAT(choose_label(label_of({{"a", 30}, {"b", 20}, {"c", 5}}), {}).warnings, IsEmpty());
}

TEST(LabelChoice, ManyNumbersAreANumber) {
  ColumnProfile price;
  price.name = "price";
  for (int i = 0; i < 100; ++i) price.add_text(std::to_string(i) + ".5");
  const LabelChoice choice = choose_label(price, {});
  EXPECT_EQ(choice.task, LabelTask::kNumber);
  EXPECT_DOUBLE_EQ(choice.mean, 50);
  EXPECT_NEAR(choice.deviation, 28.866, 0.001);
  ColumnProfile count;
  for (int i = 0; i < 100; ++i) count.add_text(std::to_string(i % 11));
  EXPECT_EQ(choose_label(count, {}).task, LabelTask::kNumber);
}

TEST(LabelChoice, NumbersOfFilesWithTypesAreNamedByTheirValues) {
  ColumnProfile label = label_of({{"-1", 3}, {"1", 1}});
  label.is_typed = true;
  const LabelChoice choice = choose_label(label, {});
  EXPECT_EQ(choice.task, LabelTask::kBinary);
  EXPECT_EQ(choice.positive, "");
  EXPECT_THAT(choice.classes, ElementsAre("-1", "1"));
  EXPECT_DOUBLE_EQ(choice.share, 0.25);
  ColumnProfile stars = label_of({{"1", 2}, {"3", 2}, {"5", 4}});
  stars.is_typed = true;
  const LabelChoice five = choose_label(stars, {.positive = "5"});
  EXPECT_EQ(five.positive, "5") << "label_positive is a number of such files, too";
  EXPECT_THAT(five.classes, IsEmpty());
  EXPECT_DOUBLE_EQ(five.share, 0.5);
}

TEST(LabelChoice, OneClassIsAWarning) {
  EXPECT_THAT(choose_label(label_of({{"0", 3}}), {}).warnings[0],
              HasSubstr("all 3 sampled rows have the label 0"));
  EXPECT_THAT(choose_label(label_of({{"0", 3}, {"1", 1}}), {}).warnings, IsEmpty());
}

TEST(LabelChoice, MissingLabelsAreBadRows) {
  const ColumnProfile label = label_of({{"0", 3}, {"1", 1}, {"", 2}, {"NA", 1}});
  EXPECT_THAT(problem_of(label), HasSubstr("is missing in 3 of 7 sampled rows"));
  EXPECT_EQ(choose_label(label, {.max_bad_rows = 3}).share, 0.25);
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
