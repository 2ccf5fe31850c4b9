#include "init/column_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

namespace emblem {
namespace {

ColumnProfile profile_of(std::initializer_list<const char*> fields) {
  ColumnProfile profile;
  for (const char* field : fields) profile.add_text(field);
  return profile;
}

TEST(ColumnProfile, MomentsAreThoseOfTheFormulas) {
  Moments moments;
  for (const double value : {1.0, 2.0, 3.0, 10.0}) moments.add(value);
  EXPECT_DOUBLE_EQ(moments.mean(), 4.0);
  EXPECT_DOUBLE_EQ(moments.deviation(), std::sqrt((9 + 4 + 1 + 36) / 4.0));
  const double third = (-27 - 8 - 1 + 216) / 4.0;
  EXPECT_NEAR(moments.skewness(), third / std::pow(12.5, 1.5), 1e-12);
  EXPECT_EQ(Moments().deviation(), 0);
  EXPECT_EQ(Moments().skewness(), 0);
}

TEST(ColumnProfile, CountsNumbersIntegersAndMissingValues) {
  const ColumnProfile profile = profile_of({"1", " 2", "2.0", "2.5", "", "NA", " ?", "nan"});
  EXPECT_EQ(profile.rows, 8);
  EXPECT_EQ(profile.numbers, 4);
  EXPECT_EQ(profile.integers, 3);
  EXPECT_EQ(profile.missing, 1);
  EXPECT_EQ(profile.present(), 4);
  EXPECT_DOUBLE_EQ(profile.missing_share(), 0.5);
  EXPECT_EQ(profile.absent, (std::map<std::string, int64_t>{{"NA", 1}, {"?", 1}, {"nan", 1}}));
  EXPECT_EQ(profile.min, 1);
  EXPECT_EQ(profile.max, 2.5);
}

TEST(ColumnProfile, TheSmallestInt64IsMissing) {
  constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
  ColumnProfile profile;
  profile.add_key(3);
  profile.add_key(kSmallest);
  profile.add_number(static_cast<double>(kSmallest));
  profile.add_text("-9223372036854775808");
  EXPECT_EQ(profile.rows, 4);
  EXPECT_EQ(profile.present(), 1);
}

TEST(ColumnProfile, SomeTextsStandForMissingValues) {
  for (const char* text : {"?", "NA", "na", "n/a", "NULL", "None", "-", ".", "inf", "-Infinity"})
    EXPECT_TRUE(is_absent_text(text)) << text;
  for (const char* text : {"0", "no", "nano", "a", "", "unknown street"})
    EXPECT_FALSE(is_absent_text(text)) << text;
  EXPECT_TRUE(is_default_absent_text("NA"));
  EXPECT_FALSE(is_default_absent_text("?"));
}

TEST(ColumnProfile, CountsDatesInBothOrders) {
  const ColumnProfile profile = profile_of({"1/5/2024", "13/5/2024", "2024-05-01 10:00", "x"});
  EXPECT_EQ(profile.month_first.count, 2);
  EXPECT_EQ(profile.day_first.count, 3);
  EXPECT_EQ(profile.day_first.hours, (std::set<int>{0, 10}));
  EXPECT_EQ(profile.others(), 1);
  EXPECT_EQ(profile_of({"20240501", "1714557600", "7"}).date_numbers.count, 2);
}

TEST(ColumnProfile, KnowsAmountsAndSpaces) {
  EXPECT_EQ(profile_of({"3,14", "-0,5", "1.234,56"}).point_groups.count, 3);
  EXPECT_EQ(profile_of({"$3,456", "1,200", "12 %"}).comma_groups.count, 3);
  EXPECT_EQ(profile_of({"a,b", "1,2,3", ",5", "3,"}).comma_groups.count, 0);
  EXPECT_EQ(profile_of({" a", "b ", "c", " 3"}).padded, 3);
}

TEST(ColumnProfile, CountsTheValuesOfLists) {
  const ColumnProfile profile = profile_of({"a|b|c", "a", "b|c", "c|"});
  const ListProfile& list = profile.lists[0];
  EXPECT_EQ(list.separator, '|');
  EXPECT_EQ(list.fields, 3);
  EXPECT_EQ(list.values, 7);
  EXPECT_EQ(list.distinct.estimate(), 3);
  EXPECT_EQ(list.longest, 3);
  EXPECT_EQ(list.words.by_frequency(), (std::vector<std::string>{"c", "a", "b"}));
}

TEST(ColumnProfile, RowNumbersAscendWithinAPiece) {
  ColumnProfile profile = profile_of({"7", "8", "9"});
  profile.begin_piece();
  profile.add_text("100");
  profile.add_text("101");
  EXPECT_TRUE(profile.ascends);
  profile.add_text("103");
  EXPECT_FALSE(profile.ascends);
}

TEST(ColumnProfile, ListsItsFirstValues) {
  ColumnProfile profile;
  for (int i = 0; i < 64; ++i) profile.add_text(std::to_string(i));
  EXPECT_TRUE(profile.has_all_values);
  profile.add_text("64");
  EXPECT_FALSE(profile.has_all_values);
  EXPECT_EQ(profile.values.size(), kValuesListed);
  EXPECT_EQ(profile_of({"a", " a", "b"}).values.find("a")->second, 2);
}

}  // namespace
}  // namespace emblem
