// Separated values, against a plain writer of random fields; and what is said of whole data sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/format/text/csv_types.h"
#include "data/inspect.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DataSource csv_source(const std::string& path) {
  DataSource source;
  source.input = path;
  source.with_header = true;
  return source;
}

std::vector<std::string> texts(const Column& column) {
  std::vector<std::string> values;
  uint32_t begin = 0;
  for (const uint32_t end : column.text_ends) {
    values.push_back(column.text.substr(begin, end - begin));
    begin = end;
  }
  return values;
}

TEST(SplitCsvLine, KnowsQuotesAndDoubledQuotes) {
  EXPECT_THAT(split_csv_line("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split_csv_line(R"("a,b","say ""hi""","",x)", ','),
              ElementsAre("a,b", "say \"hi\"", "", "x"));
  EXPECT_THAT(split_csv_line("a\t\"b\"\t", '\t'), ElementsAre("a", "b", ""));
  EXPECT_THAT(split_csv_line("5\" disk,b", ','), ElementsAre("5\" disk", "b"))
      << "a quote within is a character";
}

TEST(PickCsvFields, SetsTheFieldsBeforeADamagedQuote) {
  const std::vector<size_t> fields{2, 0, 1};
  std::vector<std::string> values;
  EXPECT_TRUE(pick_csv_fields(R"(a,"b,",c)", ',', 3, fields, values));
  EXPECT_THAT(values, ElementsAre("c", "a", "b,"));
  EXPECT_FALSE(pick_csv_fields(R"(a,b,"c)", ',', 3, fields, values));
  EXPECT_THAT(values, ElementsAre("", "a", "b"));
  EXPECT_FALSE(pick_csv_fields(R"(a,"b,c)", ',', 3, fields, values)) << "in the middle of a row";
  EXPECT_THAT(values, ElementsAre("", "a", ""));
  EXPECT_FALSE(pick_csv_fields(R"(a,"b"x,c)", ',', 3, fields, values));
  EXPECT_THAT(values, ElementsAre("", "a", ""));
  EXPECT_FALSE(pick_csv_fields("a,b", ',', 3, fields, values)) << "which column is missing?";
  EXPECT_THAT(values, ElementsAre("", "", ""));
}

TEST(Csv, RandomFieldsComeBackFromAnyPieces) {
  Random random{4, 4};
  const std::string alphabet = "abc,\"; \t.0-";
  std::vector<std::string> expected;
  std::string file = "label,x,y\r\n";
  for (int row = 0; row < 3000; ++row) {
    std::string value;
    for (uint64_t length = random.below(12); length > 0; --length)
      value += alphabet[random.below(alphabet.size())];
    std::string field = "\"";
    for (const char c : value) field += c == '"' ? std::string("\"\"") : std::string(1, c);
    field += "\"";
    const bool plain = value.find_first_of(",\"") == std::string::npos;
    file +=
        "1," + (plain && row % 2 == 0 ? value : field) + ",end" + (row % 3 == 0 ? "\r\n" : "\n");
    expected.push_back(value);
  }
  file += "\n\r\n\n";
  const TempFolder folder;
  DataSource source = csv_source(folder.write("a.csv", file));
  config::Field field;
  field.set_input_name("x");
  field.set_input_type(config::STRING);
  source.fields.push_back(field);
  const auto reader = open_reader(source);
  std::vector<std::string> found;
  Block block;
  while (reader->next(block)) {
    const std::vector<std::string> values = texts(block.columns[1]);
    found.insert(found.end(), values.begin(), values.end());
    EXPECT_THAT(texts(block.columns[2]), testing::Each("end"));
  }
  EXPECT_EQ(found, expected);
}

TEST(Csv, ACsvOfOneColumnHasARowForEveryLine) {
  const TempFolder folder;
  const auto reader = open_reader(csv_source(folder.write("a.csv", "x\n1\n\n2\r\n\r\n\"\"\n")));
  Block block;
  ASSERT_TRUE(reader->next(block));
  EXPECT_THAT(block.columns[0].ints, ElementsAre(1, 0, 2, 0, 0));
  EXPECT_THAT(block.columns[0].missing, ElementsAre(0, 1, 0, 1, 1));
}

TEST(Csv, AHeaderMayBeginWithAnEmptyNameInQuotes) {  // as R writes row numbers
  const TempFolder folder;
  for (const std::string first : {"\"\"", "\"\"\"\""}) {
    const std::string text = first + ",\"x\"\n\"1\",5\n\"2\",6\n";
    const auto reader = open_reader(csv_source(folder.write("a.csv", text)));
    Block block;
    ASSERT_TRUE(reader->next(block));
    EXPECT_THAT(block.columns[1].ints, ElementsAre(5, 6));
  }
}

TEST(Csv, NaturalTypesFollowTheValues) {
  const TempFolder folder;
  const auto reader = open_reader(csv_source(folder.write(
      "a.csv", "label,i,f,t,C1,C2,e\n1,5,1.5,x,0000000a,7,\n0,,nan,,12345678,8,\n0,-7,2,3,,9,\n")));
  std::vector<ColumnType> types;
  for (const ColumnSpec& column : reader->schema()) types.push_back(column.type);
  using enum ColumnType;
  EXPECT_THAT(types, ElementsAre(kInt64, kInt64, kFloat, kText, kInt64, kInt64, kFloat));
  Block block;
  ASSERT_TRUE(reader->next(block));
  EXPECT_THAT(block.columns[1].ints, ElementsAre(5, 0, -7));
  EXPECT_THAT(block.columns[1].missing, ElementsAre(0, 1, 0));
  EXPECT_THAT(texts(block.columns[3]), ElementsAre("x", "", "3"));
  EXPECT_THAT(block.columns[4].ints, ElementsAre(10, 0x12345678, 0)) << "C1 is hexadecimal";
  EXPECT_THAT(block.columns[5].ints, ElementsAre(7, 8, 9));
}

TEST(Csv, NumbersWhoseTextSaysMoreAreText) {
  const TempFolder folder;
  const auto reader = open_reader(csv_source(folder.write(
      "a.csv",
      "zip,plus,large,float,whole,zero,point\n05064,+7,18446744073709551615,1,9223372036854775807,"
      "0,0.5\n5064,7,1,0.0,-9223372036854775808,10,-0.25\n")));
  std::vector<ColumnType> types;
  for (const ColumnSpec& column : reader->schema()) types.push_back(column.type);
  using enum ColumnType;
  EXPECT_THAT(types, ElementsAre(kText, kText, kText, kFloat, kInt64, kInt64, kFloat));
}

TEST(Csv, ExactTypesKeepTheTextOfFractionsAndWords) {
  const TempFolder folder;
  DataSource source = csv_source(
      folder.write("a.csv", "f,C1,i\n0.123456789012,0000000a,5\nNA,0000000b,\n3.0,,-7\n"));
  source.natural = NaturalTypes::kExact;
  const auto reader = open_reader(source);
  EXPECT_EQ(reader->schema()[0].stored, "double");
  EXPECT_EQ(reader->schema()[1].type, ColumnType::kText);
  EXPECT_EQ(reader->schema()[2].type, ColumnType::kInt64);
  Block block;
  ASSERT_TRUE(reader->next(block));
  EXPECT_THAT(texts(block.columns[0]), ElementsAre("0.123456789012", "", "3.0"));
}

TEST(Csv, TypesFitRowsAtTheEndOfTheLastFile) {
  const TempFolder folder;
  std::string rows = "a,b\n";
  for (int i = 0; i < 400'000; ++i) rows += "17,1\n";
  folder.write("data/1.csv", rows);
  folder.write("data/2.csv", rows + "late,007\n");
  const auto reader = open_reader(csv_source(folder.path("data")));
  EXPECT_EQ(reader->schema()[0].type, ColumnType::kText);
  EXPECT_EQ(reader->schema()[1].type, ColumnType::kText);
  Block block;
  int64_t count = 0;
  while (reader->next(block)) count += block.rows;
  EXPECT_EQ(count, 800'001);
}

TEST(Csv, LastLineNeedsNoEndAndFilesNeedNoHeader) {
  const TempFolder folder;
  DataSource source = csv_source(folder.write("a.csv", "1;2\n3;4"));
  source.with_header = false;
  source.delimiter = ";";
  source.fields.emplace_back().set_input_name("a");
  source.fields.emplace_back().set_input_name("b");
  Block block;
  ASSERT_TRUE(open_reader(source)->next(block));
  EXPECT_THAT(block.columns[1].ints, ElementsAre(2, 4));
}

TEST(Csv, BlankLinesBeforeTheHeaderAreSkipped) {
  const TempFolder folder;
  const std::string path = folder.write("a.csv", "\n\r\nlabel,n\n1,2\n0,4\n");
  const DataSource source = guess_source(path);
  EXPECT_TRUE(source.with_header);
  Block block;
  ASSERT_TRUE(open_reader(source)->next(block));
  EXPECT_EQ(block.rows, 2);
  EXPECT_THAT(block.columns[1].ints, ElementsAre(2, 4));
  EXPECT_THROW(open_reader(guess_source(folder.write("b.csv", "\n\n"))), Error);
}

TEST(GuessSource, ADelimiterCutsAllLinesAlike) {
  const TempFolder folder;
  const auto delimiter = [&](const std::string& text) {
    return guess_source(folder.write("a.csv", text)).delimiter;
  };
  EXPECT_EQ(delimiter("label;price\n1;2,5\n0;3,5\n"), ";");
  EXPECT_EQ(delimiter("label,tags\n1,a|b|c|d\n0,a\n"), ",");
  EXPECT_EQ(delimiter("label,\"a;b;c;d\"\n1,x\n"), ",") << "within quotes it is text";
  EXPECT_EQ(guess_source(folder.write("a.txt", "label|n\n1|2\n")).delimiter, "|");
  EXPECT_EQ(guess_source(folder.write("a.txt", "label;n\n1;2\n")).type, config::CsvDataset);
}

TEST(GuessSource, AFirstLineLikeTheOthersIsNoHeader) {
  const TempFolder folder;
  const auto has_header = [&](const std::string& text, const CsvHints& hints = {}) {
    return guess_source(folder.write("a.csv", text), hints).with_header;
  };
  EXPECT_TRUE(has_header("label,city\n1,a\n"));
  EXPECT_TRUE(has_header("kind,city\nx,a\ny,b\n")) << "no value occurs again";
  EXPECT_FALSE(has_header("x,a\ny,b\nx,c\n"));
  EXPECT_FALSE(has_header("1,a\n0,b\n"));
  EXPECT_TRUE(has_header("x,a\ny,b\nx,c\n", {.with_header = true}));
  EXPECT_TRUE(has_header("x,a\ny,b\nx,c\n", {.known_column = "a"}));
  EXPECT_FALSE(has_header("1,a\n0,b\n", {.known_column = "1"})) << "a number is not a name";
  const DataSource named =
      guess_source(folder.write("a.csv", "1,a\n0,b\n"), {.names = {"label", "city"}});
  EXPECT_THAT(csv_names(named), ElementsAre("label", "city"));
  EXPECT_THROW(guess_source(folder.write("a.csv", "1,a\n"), {.names = {"label"}}), Error);
}

TEST(Inspect, TellsRowsLabelsAndColumns) {
  const TempFolder folder;
  DataSource source;
  source.type = config::CriteoTsvDataset;
  source.num_dense = source.num_sparse = 1;
  std::string file = "1\t-5\t\n0\t\t0000000a\n";
  for (int i = 0; i < 998; ++i) file += "0\t2\t0000000" + std::to_string(i % 10) + "\n";
  source.input = folder.write("a.tsv", file);
  const std::string text = describe_dataset(source);
  EXPECT_THAT(text, HasSubstr("format   CriteoTsvDataset\n"));
  EXPECT_THAT(text, HasSubstr("rows     1000\n"));
  EXPECT_THAT(text, HasSubstr("label    mean 0.001000, 1 rows are 1\n"));
  EXPECT_THAT(text, HasSubstr("\nI1               number     0.10%             -5        1.99299   "
                              "           2            2\n"));
  EXPECT_THAT(text, HasSubstr("\nC1               key        0.10%              0         4.4975   "
                              "          10           11\n"));
}

TEST(Inspect, EstimatesManyDistinctKeysWithinTenPercent) {
  const TempFolder folder;
  std::vector<TestRow> rows = random_rows(50000, 3);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].categories[2] = static_cast<uint32_t>(i % 20000);
  DataSource source = guess_source(folder.write("a.bin", as_raw(rows)));
  source.num_dense = 2;
  source.num_sparse = 3;
  const std::string text = describe_dataset(source);
  const std::string line = text.substr(text.find("\nC3 "));
  const double estimate = std::stod(line.substr(line.find('~') + 1));
  EXPECT_NEAR(estimate, 20000, 2000);
}

}  // namespace
}  // namespace emblem
