// Missing values and labels in CSV text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/format/reader.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CsvFields : public testing::Test {
 protected:
  static TestPipeline pipeline(const std::string& data) {
    return TestPipeline("data_config { with_header: true fg_mode: FG_DAG " + data + R"( }
      feature_configs { raw_feature { feature_name: "n" default_value: "-1" } }
      feature_configs { raw_feature { feature_name: "v" value_dim: 2 separator: "|" default_value: "-1" } }
      feature_configs { id_feature { feature_name: "i" num_buckets: 10 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "t" hash_bucket_size: 100 embedding_dim: 4 } })");
  }
  Batch read(const std::string& data, const std::string& content) {
    LoaderOptions options;
    options.input = folder_.write("rows.csv", content);
    const TestPipeline read_with = pipeline(data);
    Loader loader(read_with.config.data_config(), read_with.features, options);
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    return batch;
  }
  std::string error(const std::string& data, const std::string& content) {
    LoaderOptions options;
    options.input = folder_.write("rows.csv", content);
    return loader_error(pipeline(data), options);
  }
  TempFolder folder_;
};

TEST_F(CsvFields, CommonTextsAreMissingNumbers) {
  std::string rows = "label,n,v,i,t\n";
  const std::vector<std::string> texts = {"",     "NA",   "N/A", "n/a", "#N/A", "<NA>", "NULL",
                                          "null", "None", "NaN", "nan", "\\N",  " NA "};
  for (const std::string& text : texts)
    rows += "1," + text + ",1|" + (text.empty() ? "NA" : text) + ",1,a\n";
  const Batch batch = read("", rows);
  ASSERT_EQ(batch.rows, static_cast<int64_t>(texts.size()));
  for (int64_t row = 0; row < batch.rows; ++row) {
    EXPECT_EQ(batch.dense[row * 3], -1) << texts[row];
    EXPECT_EQ(batch.dense[row * 3 + 1], 1) << texts[row];
    EXPECT_EQ(batch.dense[row * 3 + 2], -1) << texts[row];
  }
}

TEST_F(CsvFields, OfIdsOnlyAnEmptyFieldIsMissing) {
  EXPECT_THAT(error("", "label,n,v,i,t\n1,1,1|2,NA,a\n"),
              HasSubstr("rows.csv:2: column i: \"NA\" is not an integer"));
  const Batch batch = read("", "label,n,v,i,t\n1,1,1|2,,NA\n0,1,1|2,3,\n");
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 0, 1));
  EXPECT_THAT(batch.sparse[1].offsets, ElementsAre(0, 1, 1)) << "NA is a text like any other";
}

TEST_F(CsvFields, ConfiguredTextsAreMissingEverywhereAndReplaceTheCommonOnes) {
  const std::string missing = "na_strings: ['?', '-999']";
  const Batch batch =
      read(missing, "label,n,v,i,t\n1,-999,1|?,?,?\n0,?,1|2,3,a\n1,5,2|3,-999,-999\n");
  EXPECT_THAT(batch.dense, ElementsAre(-1, 1, -1, -1, 1, 2, 5, 2, 3));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(batch.sparse[1].offsets, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(
      error(missing, "label,n,v,i,t\n1,NA,1|2,3,a\n"),
      HasSubstr("column n: \"NA\" is not a number (expected a decimal number or an empty field; "
                "data_config.na_strings lists texts for missing values)"));
}

TEST_F(CsvFields, LabelsMayBeWords) {
  std::string rows = "label,n,v,i,t\n";
  for (const char* label : {"true", "True", "TRUE", "t", "T", "yes", "Y", "1", "1.0", " true "})
    rows += std::string(label) + ",1,1|2,3,a\n";
  EXPECT_THAT(read("", rows).labels, testing::Each(1.0f));
  rows = "label,n,v,i,t\n";
  for (const char* label : {"false", "False", "F", "no", "N", "0", "0.0"})
    rows += std::string(label) + ",1,1|2,3,a\n";
  EXPECT_THAT(read("", rows).labels, testing::Each(0.0f));
  EXPECT_THAT(error("", "label,n,v,i,t\nmaybe,1,1|2,3,a\n"),
              HasSubstr("rows.csv:2: column label: \"maybe\" is not a label (expected a number, "
                        "true, false, yes or "
                        "no; for other text set data_config.label_positive)"));
  EXPECT_THAT(error("", "label,n,v,i,t\nNA,1,1|2,3,a\n"),
              HasSubstr("label label is missing or NaN"));
  EXPECT_THAT(error("", "label,n,v,i,t\n1,true,1|2,3,a\n"),
              HasSubstr("column n: \"true\" is not a number"));
}

TEST_F(CsvFields, ALabelMayBeATextOfItsOwn) {
  const Batch batch = read("label_positive: '50000+.'",
                           "label,n,v,i,t\n - 50000.,1,1|2,3,a\n 50000+.,1,1|2,3,a\n1,1,1|2,3,a\n");
  EXPECT_THAT(batch.labels, ElementsAre(0, 1, 0)) << "all other text is negative, numbers too";
  EXPECT_THAT(read("label_positive: '1'",
                   "label,n,v,i,t\n1.0,1,1|2,3,a\n-1.0,1,1|2,3,a\n1e0,1,1|2,3,a\n-1,1,1|2,3,a\n")
                  .labels,
              ElementsAre(1, 0, 1, 0))
      << "numbers are compared as numbers";
  EXPECT_THAT(error("label_positive: 'x'", "label,n,v,i,t\n,1,1|2,3,a\n"),
              HasSubstr("label label is missing"));
}

TEST_F(CsvFields, TypesAreFoundInSpiteOfMissingValues) {
  DataSource source;
  source.input = folder_.write("types.csv", "a,b,c\n1,NA,NA\nNA,0.5,x\n9007199254740993,,NA\n");
  source.with_header = true;
  const auto reader = open_reader(source);
  EXPECT_EQ(reader->schema()[0].type, ColumnType::kInt64);
  EXPECT_EQ(reader->schema()[1].type, ColumnType::kFloat);
  EXPECT_EQ(reader->schema()[2].type, ColumnType::kText);
  Block block;
  ASSERT_TRUE(reader->next(block));
  EXPECT_THAT(block.columns[0].missing, ElementsAre(0, 1, 0));
  EXPECT_EQ(block.columns[0].ints[2], 9007199254740993);
}

}  // namespace
}  // namespace emblem
