#include "data/feature/column_types.h"

#include <gmock/gmock.h>

#include "core/math/decimal_hash.h"
#include "data/feature/column_requests.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Rows with C1 = 7 and C1 = 1234567890, as a CSV file and as a Parquet file.
class ColumnTypes : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
    std::vector<TestRow> rows(2);
    rows[0].categories[0] = 7;
    rows[1].categories[0] = 1234567890;
    parquet_ = write_columnar(folder_, rows, "parquet", {});
    csv_ = folder_.write("rows.csv", "label,C1\n0,7\n1,1234567890\n");
  }

  static std::string data(const std::string& type, const std::string& more) {
    return "data_config { fg_mode: FG_DAG with_header: true dataset_type: " + type + " " + more +
           " } ";
  }
  static TestPipeline csv(const std::string& more = "", const std::string& feature = kGrowing) {
    return TestPipeline(data("CsvDataset", more) + feature);
  }
  static TestPipeline parquet(const std::string& more = "", const std::string& feature = kGrowing) {
    return TestPipeline(data("ParquetDataset", more) + feature);
  }

  std::vector<int64_t> keys_of(const TestPipeline& pipeline) const {
    Loader loader(pipeline.config.data_config(), pipeline.features, options_of(pipeline));
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    return {batch.sparse.back().keys.begin(), batch.sparse.back().keys.end()};
  }

  // "C1 INT64"
  std::vector<std::string> recorded(TestPipeline pipeline) const {
    config::DataConfig* data = pipeline.config.mutable_data_config();
    const LoaderOptions options = options_of(pipeline);
    record(options, pipeline);
    std::vector<std::string> types;
    for (const config::TrainedColumn& field : data->column_types())
      if (field.has_input_type())
        types.push_back(field.input_name() + " " + config::FieldType_Name(field.input_type()));
    return types;
  }

  static void record(const LoaderOptions& options, TestPipeline& pipeline) {
    config::DataConfig* data = pipeline.config.mutable_data_config();
    const Loader loader(*data, pipeline.features, options);
    ColumnFacts facts;
    facts.columns = loader.columns();
    loader.sample([&](const Block& block) { facts.add(block); });
    record_column_types(pipeline.features, options.label_check, facts, data);
  }

  // "C1 integer", "C1 text 9.0"
  std::vector<std::string> kinds(TestPipeline pipeline, const std::string& input) const {
    LoaderOptions options = options_of(pipeline);
    if (!input.empty()) options.input = input;
    record(options, pipeline);
    std::vector<std::string> found;
    for (const config::TrainedColumn& field : pipeline.config.data_config().column_types())
      found.push_back(field.input_name() + " " + field.kind() +
                      (field.has_spelling() ? " " + field.spelling() : ""));
    return found;
  }

  LoaderOptions options_of(const TestPipeline& pipeline) const {
    LoaderOptions options;
    const bool is_csv = pipeline.config.data_config().dataset_type() == config::CsvDataset;
    options.input = is_csv ? csv_ : parquet_;
    return options;
  }

  static std::vector<int64_t> hashes() {
    const uint64_t modulus = (uint64_t{1} << 63) - 1;
    return {static_cast<int64_t>(fg_hash("7") % modulus),
            static_cast<int64_t>(fg_hash("1234567890") % modulus)};
  }

  static constexpr const char* kGrowing =
      R"(feature_configs { id_feature { feature_name: "C1" embedding_dim: 4
                                        dynamicemb { max_capacity: 9 } } })";
  static constexpr const char* kInteger = R"(column_types { input_name: "C1" input_type: INT64 })";
  static constexpr const char* kText = R"(column_types { input_name: "C1" input_type: STRING })";

  TempFolder folder_;
  std::string csv_, parquet_;
};

TEST_F(ColumnTypes, AreWhatTheDataHas) {
  EXPECT_THAT(recorded(parquet()), ElementsAre("C1 INT64"));
  EXPECT_THAT(recorded(csv()), ElementsAre("C1 STRING"));
  EXPECT_THAT(recorded(csv(R"(input_fields { input_name: "C1" input_type: INT64 })")),
              ElementsAre("C1 INT64"));
}

TEST_F(ColumnTypes, AreRecordedOnceAndOnlyWhereKeysDependOnThem) {
  EXPECT_THAT(recorded(parquet(kText)), ElementsAre("C1 STRING"));
  EXPECT_THAT(recorded(parquet("", R"(feature_configs { id_feature { feature_name: "C1"
      embedding_dim: 4 hash_bucket_size: 50 } })")),
              IsEmpty());
}

TEST_F(ColumnTypes, OfAColumnThatAFeatureReadsThroughAnother) {
  const std::string chain = R"(
      feature_configs { id_feature { feature_name: "first" expression: "item:C1" stub_type: true
                                     hash_bucket_size: 9 } }
      feature_configs { id_feature { feature_name: "second" expression: "feature:first"
                                     embedding_dim: 4 dynamicemb { max_capacity: 9 } } })";
  EXPECT_THAT(recorded(parquet("", chain)), ElementsAre("C1 INT64"));
  EXPECT_THAT(keys_of(csv(kInteger, chain)), ElementsAre(7, 1234567890));
  EXPECT_EQ(keys_of(parquet(kText, chain)), hashes());
}

TEST_F(ColumnTypes, DecideKeysInOtherFormats) {
  EXPECT_THAT(keys_of(parquet()), ElementsAre(7, 1234567890));
  EXPECT_THAT(keys_of(csv(kInteger)), ElementsAre(7, 1234567890));
  EXPECT_EQ(keys_of(csv()), hashes());
  EXPECT_EQ(keys_of(parquet(kText)), hashes());
}

TEST_F(ColumnTypes, AreUnknownWhereFilesHaveTypesAndNoneIsRecorded) {
  const auto unknown = [](const TestPipeline& pipeline) {
    return columns_of_unknown_type(pipeline.config.data_config(), pipeline.features);
  };
  EXPECT_THAT(unknown(parquet()), ElementsAre("C1"));
  EXPECT_THAT(unknown(parquet(kText)), IsEmpty());
  EXPECT_THAT(unknown(parquet(R"(input_fields { input_name: "C1" input_type: INT64 })")),
              IsEmpty());
  EXPECT_THAT(unknown(csv()), IsEmpty());
}

constexpr const char* kHashed =
    R"(feature_configs { id_feature { feature_name: "C1" embedding_dim: 4 hash_bucket_size: 50 } })";

TEST_F(ColumnTypes, AreTheKindOfEveryColumnAndTheSpellingOfText) {
  EXPECT_THAT(kinds(parquet("", kHashed), ""), ElementsAre("C1 integer"));
  EXPECT_THAT(kinds(csv("", kHashed), ""), ElementsAre("C1 text 9"));
  const std::string points = folder_.write("points.csv", "label,C1\n0,7.0\n1,\n1,12.0\n");
  EXPECT_THAT(kinds(csv("", kHashed), points), ElementsAre("C1 text 9.0"));
  const std::string words = folder_.write("words.csv", "label,C1\n0,web\n1,app\n");
  EXPECT_THAT(kinds(csv("", kHashed), words), ElementsAre("C1 text text"));
  const std::string floats = folder_.write("floats.csv", "label,C1\n0,1e-07\n1,\n1,0.5\n0,nan\n");
  EXPECT_THAT(kinds(csv("", kHashed), floats), ElementsAre("C1 double text"))
      << "other writers have 1e-7 and NaN";
  const std::string ids = folder_.write("ids.csv", "label,C1\n0,1e7\n1,a3f\n");
  EXPECT_THAT(kinds(csv("", kHashed), ids), ElementsAre("C1 text mixed"));
  EXPECT_THAT(kinds(csv(R"(column_types { input_name: "C1" kind: "integer" })", kHashed), words),
              ElementsAre("C1 integer"))
      << "what a checkpoint says stays";
}

TEST(StreamColumnTypes, AreTextOfTheSpellingOfTheFirstMessages) {
  const TestPipeline pipeline(cat(R"(data_config { dataset_type: KafkaDataset fg_mode: FG_DAG
    label_fields: "label" stream_format: CSV_ROWS input_fields { input_name: "label" }
    input_fields { input_name: "C1" } })",
                                  kHashed));
  const std::vector<ColumnRequest> needed =
      columns_needed(pipeline.config.data_config(), pipeline.features, LabelCheck::kByKind);
  ColumnFacts facts;
  for (const ColumnRequest& request : needed) facts.columns.push_back({request.name, request.type});
  const auto spelling = [&] {
    config::DataConfig data = pipeline.config.data_config();
    record_column_types(pipeline.features, LabelCheck::kByKind, facts, &data);
    for (const config::TrainedColumn& column : data.column_types())
      if (column.input_name() == "C1") return column.kind() + " " + column.spelling();
    return std::string();
  };
  EXPECT_EQ(spelling(), "text mixed") << "no message was there";
  Block block;
  block.rows = 1;
  for (const ColumnSpec& spec : facts.columns) {
    Column& column = block.columns.emplace_back();
    column.clear(spec.type);
    if (spec.type == ColumnType::kText) {
      column.text = "9.0";
      column.text_ends.push_back(3);
    }
  }
  facts.add(block);
  EXPECT_EQ(spelling(), "text 9.0");
}

TEST_F(ColumnTypes, ReadIntegersOfTrainingFromTextWithAPoint) {
  const std::string points = folder_.write("points.csv", "label,C1\n0,7.0\n1,1234567890.0\n");
  const auto keys_from = [&](const TestPipeline& pipeline) {
    LoaderOptions options = options_of(pipeline);
    options.input = points;
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    return std::vector<int64_t>(batch.sparse.back().keys.begin(), batch.sparse.back().keys.end());
  };
  const std::vector<int64_t> expected = keys_of(parquet("", kHashed));
  EXPECT_EQ(keys_from(csv(R"(column_types { input_name: "C1" kind: "integer" })", kHashed)),
            expected);
  EXPECT_NE(keys_from(csv("", kHashed)), expected) << "text that is not recorded is what it is";
  EXPECT_EQ(keys_of(parquet(R"(column_types { input_name: "C1" kind: "text" spelling: "9.0" })",
                            kHashed)),
            keys_from(csv("", kHashed)));
}

}  // namespace
}  // namespace emblem
