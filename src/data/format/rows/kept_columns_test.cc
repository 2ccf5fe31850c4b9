#include "data/format/rows/kept_columns.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(KeptColumns, FieldsAreQuotedWhereReadersNeedIt) {
  EXPECT_EQ(csv_field("plain text", ','), "plain text");
  EXPECT_EQ(csv_field("", ','), "");
  EXPECT_EQ(csv_field("a,b", ','), "\"a,b\"");
  EXPECT_EQ(csv_field("a,b", ';'), "a,b");
  EXPECT_EQ(csv_field("a;b", ';'), "\"a;b\"");
  EXPECT_EQ(csv_field("say \"no\"", ','), "\"say \"\"no\"\"\"");
  EXPECT_EQ(csv_field("a\nb", ','), "\"a\nb\"");
  EXPECT_EQ(csv_field("a\r", ','), "\"a\r\"");
  EXPECT_EQ(csv_field(" a", ','), "\" a\"");
  EXPECT_EQ(csv_field("a ", ','), "\"a \"");
}

TEST(KeptColumns, ALineHasAllFields) {
  EXPECT_EQ(csv_line(std::vector<std::string>{"a", "", "b,c"}), "a,,\"b,c\"");
  EXPECT_EQ(csv_line(std::vector<std::string>{"", ""}), ",");
  EXPECT_EQ(csv_line({}), "");
}

}  // namespace
}  // namespace emblem
