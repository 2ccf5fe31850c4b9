#include "data/format/columnar/declared_type.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ColumnSpec column(ValueType values, int lists = 0, bool weighted = false) {
  return {.name = "c", .lists = lists, .weighted = weighted, .stored = "", .values = values};
}

std::string problem(config::FieldType declared, ValueKind kind, int lists = 0,
                    bool weighted = false) {
  return declared_column_problem(declared, column({kind}, lists, weighted));
}

TEST(DeclaredType, ValuesOfTextAreOfTheType) {
  for (const char* text : {"7", "-7", "007", "9.0", " 9 ", "1e3", "18446744073709551615"})
    EXPECT_EQ(declared_value_problem(config::INT64, text), "") << text;
  for (const char* text : {"1.5", "x", "$3", "2026-05-01", "1,5", "yes", "1.5.1"})
    EXPECT_THAT(declared_value_problem(config::INT32, text),
                HasSubstr("is not an integer, as input_type: INT32 of data_config.input_fields"))
        << text;
  for (const char* text : {"7", "1.5", "-1e-3", "inf"})
    EXPECT_EQ(declared_value_problem(config::DOUBLE, text), "") << text;
  EXPECT_THAT(declared_value_problem(config::FLOAT, "x"),
              StartsWith("\"x\" is not a number, as input_type: FLOAT of"));
  EXPECT_THAT(declared_value_problem(config::ARRAY_INT64, "x"), HasSubstr("is not an integer"));
  EXPECT_EQ(declared_value_problem(config::STRING, "x"), "");
  EXPECT_EQ(declared_value_problem(config::MAP_STRING_FLOAT, "x:1"), "");
}

TEST(DeclaredType, ColumnsWithTypesAreOfTheType) {
  EXPECT_EQ(problem(config::INT64, ValueKind::kInteger), "");
  EXPECT_EQ(problem(config::INT64, ValueKind::kBool), "");
  EXPECT_EQ(problem(config::INT64, ValueKind::kDate), "") << "days";
  EXPECT_EQ(problem(config::DOUBLE, ValueKind::kInteger), "");
  EXPECT_EQ(problem(config::INT64, ValueKind::kText), "") << "values are checked";
  EXPECT_EQ(problem(config::ARRAY_INT64, ValueKind::kText), "") << "text may hold a list";
  EXPECT_EQ(problem(config::ARRAY_FLOAT, ValueKind::kDouble, 1), "");
  EXPECT_EQ(problem(config::ARRAY_ARRAY_STRING, ValueKind::kText, 2), "");
  EXPECT_EQ(problem(config::MAP_STRING_FLOAT, ValueKind::kText, 1, true), "");
  EXPECT_EQ(problem(config::STRING, ValueKind::kUnknown), "") << "a column without values";
  EXPECT_EQ(problem(config::INT64, ValueKind::kDouble),
            "is double, but data_config.input_fields says input_type: INT64; the column is read as "
            "it is: correct input_type, or remove it");
  EXPECT_THAT(problem(config::STRING, ValueKind::kInteger), StartsWith("is integer, but"));
  EXPECT_THAT(declared_column_problem(config::FLOAT, column({ValueKind::kDate, 1})),
              StartsWith("is date[day], but"));
  EXPECT_THAT(problem(config::INT64, ValueKind::kInteger, 1), StartsWith("is list of integer"));
  EXPECT_THAT(problem(config::ARRAY_INT64, ValueKind::kInteger), StartsWith("is integer, but"));
  EXPECT_THAT(problem(config::ARRAY_INT64, ValueKind::kDouble, 1), StartsWith("is list of double"));
  EXPECT_THAT(problem(config::ARRAY_STRING, ValueKind::kText, 1, true), StartsWith("is map, but"));
}

}  // namespace
}  // namespace emblem
