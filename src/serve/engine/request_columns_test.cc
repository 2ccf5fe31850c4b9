#include "serve/engine/request_columns.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>

#include "config/load/load.h"
#include "model/check/check.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// One column of text and one of weighted values.
class RequestColumnsTest : public testing::Test {
 protected:
  static config::PipelineConfig pipeline() {
    config::PipelineConfig config = parse_pipeline(R"(
        train_input_path: "train" eval_input_path: "test" model_dir: "model"
        train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } }
                       dense_optimizer { adam_optimizer { lr: 0.1 } } num_epochs: 1 }
        data_config { dataset_type: CsvDataset batch_size: 4 with_header: true fg_mode: FG_DAG
                      label_fields: "label" fg_encoded_multival_sep: ";" }
        feature_configs { id_feature { feature_name: "genres" embedding_dim: 4
                                       hash_bucket_size: 30 separator: "|" } }
        feature_configs { id_feature { feature_name: "shops" embedding_dim: 4 num_buckets: 30
                                       separator: "|" weighted: true } }
        model_config {
          feature_groups { group_name: "wide" feature_names: "genres" feature_names: "shops"
                           group_type: WIDE }
          feature_groups { group_name: "deep" feature_names: "genres" feature_names: "shops" }
          wide_and_deep { deep { hidden_units: [4] } }
          losses { binary_cross_entropy {} }
        })",
                                                   "csv.config");
    check_pipeline(config);
    return config;
  }

  static std::string bytes_of(std::initializer_list<std::string_view> elements) {
    std::string bytes;
    for (const std::string_view element : elements) {
      const auto size = static_cast<uint32_t>(element.size());
      bytes.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(element);
    }
    return bytes;
  }

  // `genres` and `shops` must outlive the request.
  static InferRequest request(const std::string& genres, std::vector<int64_t> genres_shape,
                              const std::string& shops, std::vector<int64_t> shops_shape) {
    InferRequest request;
    request.inputs = {
        {"genres", DataType::kBytes, std::move(genres_shape), std::as_bytes(std::span(genres))},
        {"shops", DataType::kBytes, std::move(shops_shape), std::as_bytes(std::span(shops))}};
    return request;
  }

  const config::PipelineConfig config_ = pipeline();
  const FeatureLayout layout_ = layout_of(config_);
  const RequestColumns columns_{config_.data_config(), layout_};
  DecodedPiece piece_;
};

TEST_F(RequestColumnsTest, AnElementIsSplitLikeTheFieldOfACsvFile) {
  const std::string genres = bytes_of({"Action|Comedy", "", "Drama;;Action|", "Musical"});
  const std::string shops = bytes_of({"3:0.5|4:2", ""});
  const InferRequest asked = request(genres, {2, 2}, shops, {2, 1});
  ASSERT_EQ(columns_.check(asked), 2);
  columns_.clear(piece_);
  columns_.append(asked, 2, piece_);
  columns_.finish(piece_);
  const Column& text = piece_.block.columns[0];
  EXPECT_EQ(text.text, "ActionComedyDramaActionMusical");
  EXPECT_THAT(text.text_ends, ElementsAre(6, 12, 17, 23, 30));
  EXPECT_THAT(text.offsets, ElementsAre(0, 2, 5));
  const Column& weighted = piece_.block.columns[1];
  EXPECT_THAT(weighted.ints, ElementsAre(3, 4));
  EXPECT_THAT(weighted.weights, ElementsAre(0.5f, 2.0f));
  EXPECT_THAT(weighted.offsets, ElementsAre(0, 2, 2));
}

TEST_F(RequestColumnsTest, TextThatIsNoValueNamesTheInput) {
  const std::string genres = bytes_of({"Action"}), shops = bytes_of({"3:0.5|x:2"});
  const InferRequest asked = request(genres, {1, 1}, shops, {1, 1});
  ASSERT_EQ(columns_.check(asked), 1);
  columns_.clear(piece_);
  EXPECT_THAT([&] { columns_.append(asked, 1, piece_); },
              ThrowsMessage<Error>(HasSubstr("input 'shops', row 0: \"x\" is not an integer")));
}

// A row without values takes no bytes.
TEST_F(RequestColumnsTest, RowsWithoutValuesAreLimited) {
  EXPECT_EQ(columns_.check(request("", {1 << 20, 0}, "", {1 << 20, 0})), 1 << 20);
  const int64_t rows = int64_t{1} << 39;
  EXPECT_THAT(
      [&] {
        columns_.check(request("", {rows, 0}, "", {rows, 0}));
      },
      ThrowsMessage<Error>(HasSubstr("a request has 549755813888 rows; up to 16777216")));
}

// "name TYPE" of each input of a served CSV pipeline.
std::vector<std::string> inputs_of(const std::string& settings) {
  const PipelineConfig config = parse_pipeline(settings + R"(
    feature_configs { raw_feature { feature_name: "age" expression: "user:years" normalizer: "method=log1p" } }
    feature_configs { raw_feature { feature_name: "level" boundaries: [1, 2] embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "city" expression: "user:town" hash_bucket_size: 9 embedding_dim: 4 } })",
                                               "test.config");
  const RequestColumns columns(config.data_config(), layout_of(config));
  std::vector<std::string> inputs;
  for (const auto& input : columns.inputs())
    inputs.push_back(cat(input.name, " ", name_of(input.type)));
  return inputs;
}

TEST(RequestColumns, FollowTheFgModeOfTheModel) {
  EXPECT_THAT(inputs_of("data_config { fg_mode: FG_DAG }"),
              ElementsAre("years FP32", "level FP32", "town BYTES"));
  EXPECT_THAT(inputs_of("data_config { fg_mode: FG_BUCKETIZE }"),
              ElementsAre("age FP32", "level FP32", "city BYTES"));
  EXPECT_THAT(inputs_of("data_config { fg_mode: FG_NONE }"),
              ElementsAre("age FP32", "level INT64", "city INT64"));
  EXPECT_THAT(inputs_of("semantics_version: 1"),
              ElementsAre("years FP32", "level FP32", "town BYTES"));
}

// The texts of a column of ids that was trained as `record` says, from a tensor of values.
template <class T>
std::vector<std::string> texts_from(const std::string& record, DataType type,
                                    const std::vector<T>& values) {
  const PipelineConfig config = parse_pipeline(
      "data_config { fg_mode: FG_DAG column_types { input_name: 'id' " + record + R"( } }
       feature_configs { id_feature { feature_name: "id" hash_bucket_size: 9 embedding_dim: 4 } })",
      "test.config");
  const RequestColumns columns(config.data_config(), layout_of(config));
  InferRequest request;
  const auto rows = static_cast<int64_t>(values.size());
  request.inputs = {{"id", type, {rows, 1}, std::as_bytes(std::span(values))}};
  EXPECT_EQ(columns.check(request), rows);
  DecodedPiece piece;
  columns.clear(piece);
  columns.append(request, rows, piece);
  const Column& column = piece.block.columns[0];
  std::vector<std::string> texts;
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t begin = column.offsets[row], end = column.offsets[row + 1];
    const size_t from = begin == 0 ? 0 : column.text_ends[begin - 1];
    texts.push_back(begin == end ? "" : column.text.substr(from, column.text_ends[begin] - from));
  }
  return texts;
}

TEST(RequestColumns, TakeNumbersAndBoolsAsTheTextThatFilesGiveThem) {
  EXPECT_THAT(texts_from<uint8_t>("kind: 'bool'", DataType::kBool, {1, 0}), ElementsAre("1", "0"));
  EXPECT_THAT(texts_from<uint8_t>("kind: 'text' spelling: 'True'", DataType::kBool, {1, 0}),
              ElementsAre("True", "False"));
  EXPECT_THAT(texts_from<int64_t>("kind: 'integer'", DataType::kInt64, {7, INT64_MIN, INT64_MAX}),
              ElementsAre("7", "", "9223372036854775807"));
  EXPECT_THAT(texts_from<uint64_t>("kind: 'integer'", DataType::kUint64, {UINT64_MAX}),
              ElementsAre("18446744073709551615"));
  EXPECT_THAT(texts_from<int32_t>("kind: 'text' spelling: '9.0'", DataType::kInt32, {7}),
              ElementsAre("7.0"));
  EXPECT_THAT(texts_from<double>("kind: 'double'", DataType::kFp64, {7, 0.5, std::nan("")}),
              ElementsAre("7", "0.5", ""));
  EXPECT_THAT(texts_from<float>("input_type: STRING", DataType::kFp32, {7, 0.1f}),
              ElementsAre("7", "0.1"));
}

TEST(RequestColumns, RefuseTypesThatCannotBeWhatTrainingHad) {
  EXPECT_THAT([] { texts_from<int64_t>("kind: 'text' spelling: 'text'", DataType::kInt64, {7}); },
              ThrowsMessage<Error>(HasSubstr("input 'id' is INT64, but was text without numbers")));
  EXPECT_THAT([] { texts_from<uint16_t>("kind: 'integer'", DataType::kFp16, {7}); },
              ThrowsMessage<Error>(HasSubstr("input 'id' is FP16, expected BYTES")));
  EXPECT_THAT([] { texts_from<double>("kind: 'integer'", DataType::kFp64, {7.5}); },
              ThrowsMessage<Error>(HasSubstr("\"7.5\" is not an integer")));
}

}  // namespace
}  // namespace emblem
