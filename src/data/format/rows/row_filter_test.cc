#include "data/format/rows/row_filter.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

RowFilter filter(const std::string& text, LeafType type) {
  RowFilter made(text);
  made.set_field({made.column(), type, 0, false, "a type"}, "a.parquet");
  return made;
}

bool keeps(const std::string& text, int64_t value) {
  Column column;
  column.clear(ColumnType::kInt64);
  column.ints.push_back(value);
  return filter(text, LeafType::kInteger).keeps(column, 0);
}

bool keeps(const std::string& text, uint64_t value) {
  Column column;
  column.clear(ColumnType::kInt64);
  column.ints.push_back(static_cast<int64_t>(value));
  return filter(text, LeafType::kUnsigned).keeps(column, 0);
}

bool keeps(const std::string& text, float value) {
  Column column;
  column.clear(ColumnType::kFloat);
  column.floats.push_back(value);
  return filter(text, LeafType::kFloat).keeps(column, 0);
}

bool keeps(const std::string& text, const std::string& value) {
  Column column;
  column.clear(ColumnType::kText);
  column.text = value;
  column.text_ends.push_back(static_cast<uint32_t>(value.size()));
  return filter(text, LeafType::kText).keeps(column, 0);
}

TEST(RowFilter, ComparesIntegersExactly) {
  EXPECT_TRUE(keeps("day >= 20261101", int64_t{20261101}));
  EXPECT_FALSE(keeps("day > 20261101", int64_t{20261101}));
  EXPECT_TRUE(keeps("id = 9007199254740993", int64_t{9007199254740993}));
  EXPECT_FALSE(keeps("id == 9007199254740993", int64_t{9007199254740992}));
  EXPECT_TRUE(keeps("id<2.5", int64_t{2}));
  EXPECT_FALSE(keeps("id != -3", int64_t{-3}));
  EXPECT_TRUE(keeps("id in [1, 2, 3]", int64_t{2}));
  EXPECT_FALSE(keeps("id not in [1,2]", int64_t{2}));
}

TEST(RowFilter, ComparesUnsignedIntegersWithoutASign) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(keeps("id >= 0", kMost));
  EXPECT_TRUE(keeps("id > 100", kMost));
  EXPECT_TRUE(keeps("id > -1", uint64_t{0}));
  EXPECT_FALSE(keeps("id = -1", kMost));
  EXPECT_TRUE(keeps("id = 18446744073709551615", kMost));
  EXPECT_FALSE(keeps("id = 18446744073709551615", kMost - 1));
  EXPECT_TRUE(keeps("id < 18446744073709551615", kMost - 1));
  EXPECT_TRUE(keeps("id in [9223372036854775808]", uint64_t{1} << 63));
  EXPECT_FALSE(keeps("id not in [1, 18446744073709551615]", kMost));
  EXPECT_TRUE(keeps("id < 2.5", uint64_t{2}));
}

TEST(RowFilter, AListsTextInQuotesMayHaveCommas) {
  for (const char* const text :
       {"s in [\"x,y\", a]", "s in [a, 'x,y']", "s in [ \"x,y\" ,a]", "s in ['x,y']"}) {
    EXPECT_TRUE(keeps(text, std::string("x,y"))) << text;
    EXPECT_FALSE(keeps(text, std::string("x"))) << text;
    EXPECT_FALSE(keeps(text, std::string("y"))) << text;
  }
  EXPECT_TRUE(keeps("s in [\"x,y\", a]", std::string("a")));
  EXPECT_TRUE(keeps("s not in [\"x,y\", \"z\"]", std::string("x")));
  // Quotes that do not enclose a value are part of it.
  EXPECT_TRUE(keeps("s in [it's, that's]", std::string("it's")));
  EXPECT_TRUE(keeps("s in [\"5\" wide, a]", std::string("\"5\" wide")));
  EXPECT_TRUE(keeps("s in ['n, a]", std::string("'n")));
}

TEST(RowFilter, ComparesNumbersAsFloatsAndTextByItsBytes) {
  EXPECT_TRUE(keeps("price == 0.1", 0.1f));
  EXPECT_TRUE(keeps("price <= 0.1", 0.1f));
  EXPECT_TRUE(keeps("country in [de, \"fr\"]", std::string("fr")));
  EXPECT_FALSE(keeps("country in [de, fr]", std::string("us")));
  EXPECT_TRUE(keeps("name != 'a b'", std::string("a")));
}

TEST(RowFilter, AMissingValueFulfilsNoCondition) {
  EXPECT_FALSE(keeps("price != 1", std::nanf("")));
  EXPECT_FALSE(keeps("name != a", std::string()));
  Column column;
  column.clear(ColumnType::kInt64);
  column.ints.push_back(0);
  column.missing.push_back(1);
  EXPECT_FALSE(filter("id not in [1]", LeafType::kInteger).keeps(column, 0));
}

TEST(RowFilter, TheSmallestInt64IsAMissingValue) {
  constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
  EXPECT_FALSE(keeps("id < 5", kSmallest));
  EXPECT_TRUE(keeps("id < 5", kSmallest + 1));
  EXPECT_FALSE(keeps("price < 5", static_cast<float>(kSmallest)));
  EXPECT_TRUE(keeps("id > 5", uint64_t{1} << 63)) << "unsigned, it is another number";
}

// For every condition and all bounds over a few values: a part is skipped only if none of its
// values is kept.
TEST(RowFilter, BoundsNeverHideARow) {
  for (const char* const text : {"x = 2", "x != 2", "x < 2", "x <= 2", "x > 2", "x >= 2",
                                 "x in [0, 3]", "x not in [1, 2]", "x < 1.5", "x != 2.5"}) {
    const RowFilter condition = filter(text, LeafType::kInteger);
    for (int64_t low = 0; low < 5; ++low) {
      for (int64_t high = low; high < 5; ++high) {
        bool any = false;
        for (int64_t value = low; value <= high; ++value) any = any || keeps(text, value);
        if (any) {
          EXPECT_TRUE(condition.may_keep({false, low, high})) << text << low << high;
        }
      }
    }
    EXPECT_FALSE(condition.may_keep({true, {}, {}}));
  }
  EXPECT_FALSE(filter("x > 4", LeafType::kInteger).may_keep({false, int64_t{0}, int64_t{4}}));
}

TEST(RowFilter, SaysWhatIsWrong) {
  for (const char* const text : {"", "day", "day >=", ">= 3", "day in 3", "day ~ 3", "in [1]"}) {
    EXPECT_THAT([&] { RowFilter made(text); },
                ThrowsMessage<Error>(HasSubstr("expected COLUMN OP VALUE")))
        << text;
  }
  EXPECT_THAT([] { filter("x = abc", LeafType::kInteger); },
              ThrowsMessage<Error>(AllOf(HasSubstr("a.parquet"), HasSubstr("\"abc\""))));
}

}  // namespace
}  // namespace emblem
