#include "data/format/rows/column_fit.h"

#include <gmock/gmock.h>

#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

ColumnarField field(LeafType type, int lists) { return {"x", type, lists, false, "its type"}; }

Column texts(const std::vector<std::string>& values) {
  Column column;
  column.clear(ColumnType::kText);
  for (const std::string& value : values) {
    column.text += value;
    column.text_ends.push_back(static_cast<uint32_t>(column.text.size()));
  }
  return column;
}

Column integers(std::initializer_list<int64_t> values) {
  Column column;
  column.clear(ColumnType::kInt64);
  column.ints.assign(values);
  return column;
}

std::vector<std::string> texts_of(const Column& column) {
  std::vector<std::string> values;
  size_t begin = 0;
  for (const uint32_t end : column.text_ends) {
    values.push_back(column.text.substr(begin, end - begin));
    begin = end;
  }
  return values;
}

std::vector<RowProblem> fit(const ColumnarField& from, const ColumnRequest& request, int64_t rows,
                            Column& column) {
  Column scratch;
  std::vector<RowProblem> problems;
  ColumnFit(from, &request, {}, "a.parquet").apply(rows, column, {}, scratch, problems);
  return problems;
}

TEST(ColumnFit, LabelsOfNumbersFollowLabelPositive) {
  ColumnRequest request{.name = "x", .label = LabelText::kPositive, .label_positive = "2"};
  Column column;
  column.clear(ColumnType::kFloat);
  column.floats.assign({1, 2, std::nanf(""), 2});
  EXPECT_THAT(fit(field(LeafType::kInteger, 0), request, 4, column), IsEmpty());
  EXPECT_THAT(column.floats, ElementsAre(0, 1, testing::IsNan(), 1));
  request.label_positive = "False";
  ColumnarField boolean = field(LeafType::kInteger, 0);
  boolean.type_text = "bool";
  column.floats.assign({1, 0});
  fit(boolean, request, 2, column);
  EXPECT_THAT(column.floats, ElementsAre(0, 1));
  request.label_positive = "yes";
  EXPECT_THAT([&] { ColumnFit(field(LeafType::kInteger, 0), &request, {}, "a.parquet"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("data_config.label_positive is \"yes\""),
                                         HasSubstr("a.parquet"), HasSubstr("its type"))));
}

TEST(ColumnFit, TextIsReadAsAFieldOfACsvFileIs) {
  const ColumnRequest request{.name = "x", .type = ColumnType::kInt64, .separators = "|"};
  Column column = texts({"1|2", "", "x|3", "4"});
  const auto problems = fit(field(LeafType::kText, 0), request, 4, column);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].first, 2);
  EXPECT_THAT(problems[0].second, AllOf(HasSubstr("column x"), HasSubstr("not an integer")));
  EXPECT_THAT(column.ints, ElementsAre(1, 2, 4));
  EXPECT_THAT(column.offsets, ElementsAre(0, 2, 2, 2, 3));
}

TEST(ColumnFit, TextOfLabelsMayBeWords) {
  const ColumnRequest request{.name = "x", .label = LabelText::kWords};
  Column column = texts({"yes", "no", "1", ""});
  EXPECT_THAT(fit(field(LeafType::kText, 0), request, 4, column), IsEmpty());
  EXPECT_THAT(std::vector<float>(column.floats.begin(), column.floats.begin() + 3),
              ElementsAre(1, 0, 1));
  EXPECT_TRUE(std::isnan(column.floats[3]));
}

TEST(ColumnFit, CodesStayUnlessAnEntryHasASeparator) {
  const ColumnRequest request{
      .name = "x", .type = ColumnType::kText, .separators = "|", .codes = true};
  for (const bool has_separator : {false, true}) {
    Column column = texts({});
    column.dictionary = std::make_shared<TextDictionary>();
    column.dictionary->text = has_separator ? "a|bc" : "abc";
    column.dictionary->ends.push_back(has_separator ? 3 : 2);
    column.dictionary->ends.push_back(has_separator ? 4 : 3);
    column.codes.assign({1, 0, -1, 1});
    EXPECT_THAT(fit(field(LeafType::kText, 0), request, 4, column), IsEmpty());
    EXPECT_EQ(column.dictionary == nullptr, has_separator);
    if (!has_separator) continue;
    EXPECT_THAT(texts_of(column), ElementsAre("c", "a", "b", "c"));
    EXPECT_THAT(column.offsets, ElementsAre(0, 1, 3, 3, 4));
  }
}

TEST(ColumnFit, AListIsABagASequenceOrASingleValue) {
  const auto lists = [] {
    Column column = integers({1, 2, 3});
    column.offsets.assign({0, 2, 2, 3});
    return column;
  };
  Column bag = lists();
  EXPECT_THAT(fit(field(LeafType::kInteger, 1),
                  {.name = "x", .type = ColumnType::kInt64, .separators = "|"}, 3, bag),
              IsEmpty());
  EXPECT_THAT(bag.offsets, ElementsAre(0, 2, 2, 3));

  Column sequence = lists();
  EXPECT_THAT(fit(field(LeafType::kInteger, 1),
                  {.name = "x", .type = ColumnType::kInt64, .sequence_delim = ";"}, 3, sequence),
              IsEmpty());
  EXPECT_THAT(sequence.offsets, IsEmpty());
  EXPECT_THAT(sequence.sequence_offsets, ElementsAre(0, 2, 2, 3));

  Column single = lists();
  const auto problems =
      fit(field(LeafType::kInteger, 1), {.name = "x", .type = ColumnType::kInt64}, 3, single);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].first, 0);
  EXPECT_THAT(problems[0].second, HasSubstr("a list of 2 values; expected one value"));
  EXPECT_THAT(single.missing, ElementsAre(1, 1, 0));
  EXPECT_EQ(single.ints[2], 3);
}

TEST(ColumnFit, ElementsOfASequenceMayHoldSeveralValues) {
  const ColumnRequest request{
      .name = "x", .type = ColumnType::kText, .separators = "|", .sequence_delim = ";"};
  Column column = texts({"a|b", "c", "d"});
  column.offsets.assign({0, 2, 2, 3});
  EXPECT_THAT(fit(field(LeafType::kText, 1), request, 3, column), IsEmpty());
  EXPECT_THAT(texts_of(column), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(column.offsets, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(column.sequence_offsets, ElementsAre(0, 2, 2, 3));
}

TEST(ColumnFit, AValueOfItsOwnIsASequenceOfOneElement) {
  Column column = integers({7, 0, 9});
  column.missing.assign({0, 1, 0});
  const ColumnRequest request{.name = "x", .type = ColumnType::kInt64, .sequence_delim = ";"};
  EXPECT_THAT(fit(field(LeafType::kInteger, 0), request, 3, column), IsEmpty());
  EXPECT_THAT(column.ints, ElementsAre(7, 9));
  EXPECT_THAT(column.sequence_offsets, ElementsAre(0, 1, 1, 2));
}

TEST(ColumnFit, ListsOfListsAreForSequences) {
  const ColumnRequest request{.name = "x", .separators = "|"};
  const auto make = [&] {
    ColumnFit made(field(LeafType::kInteger, 2), &request, {}, "a.parquet");
  };
  EXPECT_THAT(make, ThrowsMessage<Error>(AllOf(HasSubstr("a.parquet: column \"x\" is its type"),
                                               HasSubstr("features of sequences"))));
}

ColumnRequest text_request(const std::string& kind, const std::string& spelling) {
  ColumnRequest request{.name = "x", .type = ColumnType::kText};
  request.trained = {value_type_named(kind), spelling_named(spelling)};
  return request;
}

ColumnarField stored_as(LeafType type, const std::string& stored) {
  return {"x", type, 0, false, stored, stored};
}

TEST(ColumnFit, NumbersAreTheTextOfTraining) {
  const ColumnRequest point = text_request("text", "9.0");
  const ColumnFit fit_of_integers(field(LeafType::kInteger, 0), &point, {}, "a.parquet");
  EXPECT_EQ(fit_of_integers.read(0).type, ColumnType::kText);
  Column numbers = texts({"9", "", "-12"});
  EXPECT_THAT(fit(field(LeafType::kInteger, 0), point, 3, numbers), IsEmpty());
  EXPECT_THAT(texts_of(numbers), ElementsAre("9.0", "", "-12.0"));

  Column bools = texts({"1", "0"});
  EXPECT_THAT(fit(stored_as(LeafType::kInteger, "bool"), text_request("text", "true"), 2, bools),
              IsEmpty());
  EXPECT_THAT(texts_of(bools), ElementsAre("true", "false"));

  const ColumnRequest plain = text_request("text", "9");
  EXPECT_EQ(ColumnFit(field(LeafType::kInteger, 0), &plain, {}, "").type(), ColumnType::kInt64)
      << "integers are hashed as their text without being written";
}

TEST(ColumnFit, TextOfAnotherSpellingIsThatOfTraining) {
  Column ids = texts({"9.0", "", "12.0"});
  EXPECT_THAT(fit(field(LeafType::kText, 0), text_request("integer", ""), 3, ids), IsEmpty());
  EXPECT_THAT(texts_of(ids), ElementsAre("9", "", "12"));

  Column others = texts({"9", "web"});
  const auto problems = fit(field(LeafType::kText, 0), text_request("integer", ""), 2, others);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].first, 1);
  EXPECT_THAT(problems[0].second,
              HasSubstr("\"web\" is not an integer, as the column's values were in training"));
}

TEST(ColumnFit, TimesAreInTheUnitOfTraining) {
  const ColumnarField found = stored_as(LeafType::kInteger, "timestamp[ns]");
  Column ids = integers({5000, 7000});
  EXPECT_THAT(fit(found, text_request("timestamp[us]", ""), 2, ids), IsEmpty());
  EXPECT_THAT(ids.ints, ElementsAre(5, 7));

  ColumnRequest number = text_request("timestamp[us]", "");
  number.type = ColumnType::kFloat;
  Column numbers = integers({5000, 7000});
  EXPECT_EQ(ColumnFit(found, &number, {}, "").read(0).type, ColumnType::kInt64);
  EXPECT_THAT(fit(found, number, 2, numbers), IsEmpty());
  EXPECT_THAT(numbers.floats, ElementsAre(5, 7));

  Column odd = integers({5001});
  const auto problems = fit(found, text_request("timestamp[us]", ""), 1, odd);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].second, HasSubstr("is not a whole number of the units"));

  Column dates = integers({20773});
  EXPECT_THAT(fit(stored_as(LeafType::kInteger, "date32[day]"), text_request("text", "2026-11-16"),
                  1, dates),
              IsEmpty());
  EXPECT_THAT(texts_of(dates), ElementsAre("2026-11-16"));
}

TEST(ColumnFit, AColumnOfAnotherKindIsRefusedWhereItIsNotCertain) {
  const auto open = [](const ColumnarField& found, const ColumnRequest& request) {
    return [=] { ColumnFit(found, &request, {}, "a.parquet"); };
  };
  EXPECT_THAT(open(stored_as(LeafType::kInteger, "int64"), text_request("text", "mixed")),
              ThrowsMessage<Error>(HasSubstr("a.parquet: column \"x\" is int64, but was text")));
  EXPECT_THAT(open(stored_as(LeafType::kInteger, "timestamp[us]"), text_request("integer", "")),
              ThrowsMessage<Error>(HasSubstr("is timestamp[us], but was integer in training")));
  EXPECT_NO_THROW(open(stored_as(LeafType::kInteger, "null"), text_request("text", "text"))());
}

}  // namespace
}  // namespace emblem
