#include "data/format/text/line_parser.h"

#include <gmock/gmock.h>

#include <cmath>

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ColumnRequest kNumber{.name = "x", .type = ColumnType::kFloat};
const ColumnRequest kId{.name = "id", .type = ColumnType::kInt64};
const ColumnRequest kText{.name = "t", .type = ColumnType::kText};
const ColumnRequest kBag{.name = "bag", .type = ColumnType::kInt64, .separators = "|"};
const ColumnRequest kWeighted{
    .name = "w", .type = ColumnType::kText, .separators = "|", .weighted = true};
const ColumnRequest kSequence{
    .name = "s", .type = ColumnType::kInt64, .separators = "|", .sequence_delim = ";"};

struct Parsed {
  Block block;
  std::vector<std::string> problems;
};

Parsed parse(const LineParser& parser, const std::vector<std::string>& lines) {
  Parsed parsed;
  parser.begin_block(static_cast<int64_t>(lines.size()), parsed.block);
  int64_t rows = 0;
  for (const std::string& line : lines) {
    const std::string problem = parser.add(line, rows, parsed.block);
    if (problem.empty())
      ++rows;
    else
      parsed.problems.push_back(problem);
  }
  parser.end_block(rows, parsed.block);
  return parsed;
}

Parsed json(const ColumnRequest& request, const std::vector<std::string>& lines) {
  return parse(*make_json_line_parser({request}, {}), lines);
}

TEST(JsonLines, HoldNumbersIdsAndTextAsCsvDoes) {
  const auto parser = make_json_line_parser({kNumber, kId, kText}, {});
  const Parsed parsed = parse(*parser, {R"({"x": 1.5, "id": 9007199254740993, "t": "a\u00fc"})",
                                        R"({"t": 7, "id": "12", "x": "-2e1", "other": [{"x": 1}]})",
                                        R"({"x": true, "id": -1, "t": false})"});
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.block.rows, 3);
  EXPECT_THAT(parsed.block.columns[0].floats, ElementsAre(1.5f, -20.0f, 1.0f));
  EXPECT_THAT(parsed.block.columns[1].ints, ElementsAre(9007199254740993, 12, -1));
  EXPECT_EQ(parsed.block.columns[2].text, "a\u00fc70");
}

TEST(JsonLines, HoldNumbersAndBoolsWithTheTextThatAllFormatsGiveThem) {
  const Parsed parsed = json(kText, {R"({"t": 9.0})", R"({"t": 1e5})", R"({"t": 0.50})",
                                     R"({"t": -0.0})", R"({"t": true})", R"({"t": 1e300})",
                                     R"({"t": 184467440737095516160})", R"({"t": "9.0"})"});
  EXPECT_THAT(parsed.problems, IsEmpty());
  std::vector<std::string> texts;
  for (size_t i = 0; i < 8; ++i) texts.emplace_back(text_at(parsed.block.columns[0], i));
  EXPECT_THAT(
      texts, ElementsAre("9", "100000", "0.5", "0", "1", "1e+300", "184467440737095516160", "9.0"));
  ColumnRequest label = kNumber;
  label.label = LabelText::kPositive;
  label.label_positive = "True";
  EXPECT_THAT(json(label, {R"({"x": true})", R"({"x": false})"}).block.columns[0].floats,
              ElementsAre(1, 0));
}

TEST(JsonLines, HaveMissingValuesWhereAKeyIsNotThereOrNull) {
  const auto parser = make_json_line_parser({kNumber, kId, kText, kBag}, {});
  const Parsed parsed =
      parse(*parser, {"{}", R"({"x": null, "id": null, "t": null, "bag": null})"});
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_TRUE(std::isnan(parsed.block.columns[0].floats[1]));
  EXPECT_THAT(parsed.block.columns[1].missing, ElementsAre(1, 1));
  EXPECT_THAT(parsed.block.columns[2].text_ends, ElementsAre(0u, 0u));
  EXPECT_THAT(parsed.block.columns[3].offsets, ElementsAre(0, 0, 0));
}

TEST(JsonLines, HoldBagsAsArraysAsTextOrAsOneValue) {
  const Parsed bags = json(kBag, {R"({"bag": [1, "2", null]})", R"({"bag": "3|4|5"})",
                                  R"({"bag": 6})", R"({"bag": []})"});
  EXPECT_THAT(bags.problems, IsEmpty());
  EXPECT_THAT(bags.block.columns[0].ints, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(bags.block.columns[0].offsets, ElementsAre(0, 2, 5, 6, 6));
  const Parsed weighted =
      json(kWeighted, {R"({"w": {"a": 0.5, "b:c": 2}})", R"({"w": ["a:1", "b:3"]})"});
  EXPECT_THAT(weighted.problems, IsEmpty());
  EXPECT_EQ(weighted.block.columns[0].text, "ab:cab");
  EXPECT_THAT(weighted.block.columns[0].weights, ElementsAre(0.5f, 2.0f, 1.0f, 3.0f));
}

TEST(JsonLines, HoldSequencesOfValuesAndOfBags) {
  const Parsed parsed =
      json(kSequence, {R"({"s": [1, [2, 3], null]})", R"({"s": "4;5|6"})", R"({"s": []})"});
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_THAT(parsed.block.columns[0].ints, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(parsed.block.columns[0].sequence_offsets, ElementsAre(0, 3, 5, 5));
  EXPECT_THAT(parsed.block.columns[0].offsets, ElementsAre(0, 1, 3, 3, 4, 6));
}

TEST(JsonLines, ThatAreBadSayWhyAndLeaveNoTrace) {
  const auto parser = make_json_line_parser({kNumber, kBag}, {});
  const Parsed parsed =
      parse(*parser, {R"({"x": 1, "bag": [1]})", R"({"x": 2, "bag": [1, "two"]})", R"({"x": 3)",
                      "[]", "5", R"({"x": [1]})", R"({"x": 1, "x": 2})", R"({"bag": [[1]]})",
                      R"({"bag": {"1": 2}})", "{\"x\": \"\xff\"}", R"({"x": 4, "bag": [2]})"});
  EXPECT_EQ(parsed.block.rows, 2);
  EXPECT_THAT(parsed.block.columns[0].floats, ElementsAre(1, 4));
  EXPECT_THAT(parsed.block.columns[1].ints, ElementsAre(1, 2));
  EXPECT_THAT(
      parsed.problems,
      ElementsAre(HasSubstr("column bag: \"two\" is not an integer"),
                  HasSubstr("is not valid JSON at byte"),
                  HasSubstr("is an array, expected an object"),
                  HasSubstr("is one value, expected an object"),
                  HasSubstr("column x: is an array, expected one value"),
                  HasSubstr("the key \"x\" is a duplicate"), HasSubstr("nested too deep"),
                  HasSubstr("only a bag of weighted values"), HasSubstr("is not valid JSON")));
}

TEST(CsvLines, AreReadByTheNamesOfTheirColumns) {
  const auto parser = make_csv_line_parser({"t", "x", "y"}, ',', {kNumber, kText}, {}, "fields");
  const Parsed parsed = parse(*parser, {"a,1,", "\"b,c\",2,9", "d,3"});
  EXPECT_THAT(parsed.block.columns[0].floats, ElementsAre(1, 2));
  EXPECT_EQ(parsed.block.columns[1].text, "ab,c");
  EXPECT_THAT(parsed.problems, ElementsAre(HasSubstr("found 2 columns, expected 3")));
}

}  // namespace
}  // namespace emblem
