// Sequences in requests: every form gives the columns that a CSV file gives.
#include "serve/engine/request_sequence.h"

#include <gmock/gmock.h>

#include <deque>

#include "config/load/load.h"
#include "data/feature/transform.h"
#include "data/format/text/number_text.h"
#include "serve/engine/request_columns.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// A request and the memory of its tensors.
class Request {
 public:
  Request() = default;
  Request(Request&&) = default;  // a copy would refer to the memory of the other

  template <class T>
  Request& add(const std::string& name, DataType type, std::vector<int64_t> shape,
               const std::vector<T>& values) {
    return add_bytes(
        name, type, std::move(shape),
        std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }
  Request& add_text(const std::string& name, std::vector<int64_t> shape,
                    const std::vector<std::string>& texts) {
    std::string bytes;
    for (const std::string& text : texts) {
      const auto size = static_cast<uint32_t>(text.size());
      bytes.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
    }
    return add_bytes(name, DataType::kBytes, std::move(shape), std::move(bytes));
  }
  const InferRequest& get() const { return request_; }

 private:
  Request& add_bytes(const std::string& name, DataType type, std::vector<int64_t> shape,
                     std::string bytes) {
    const std::string& kept = memory_.emplace_back(std::move(bytes));
    request_.inputs.push_back({name, type, std::move(shape), std::as_bytes(std::span(kept))});
    return *this;
  }

  std::deque<std::string> memory_;
  InferRequest request_;
};

class RequestSequences : public testing::Test {
 protected:
  // The batch that the transform makes of a request.
  Batch batch_of(const Request& request) const {
    const int64_t rows = columns_.check(request.get());
    DecodedPiece piece;
    columns_.clear(piece);
    columns_.append(request.get(), rows, piece);
    columns_.finish(piece);
    const FeatureTransform transform(config_.data_config(), layout_, LabelCheck::kIgnore,
                                     columns_.requests(), columns_.columns());
    Batch batch;
    transform.apply(piece, batch);
    return batch;
  }
  static Request with_prices() {
    Request request;
    request.add<float>("prices", DataType::kFp32, {2, 0, 2}, {});
    return request;
  }
  void expect_items(const Batch& batch) const {
    EXPECT_THAT(batch.sequences[0].offsets, ElementsAre(0, 3, 4));
    EXPECT_THAT(batch.sparse[0].keys, ElementsAre(5, 0, 7, 9));
    EXPECT_THAT(batch.sparse[0].offsets, IsEmpty());
  }

  const PipelineConfig config_ = parse_pipeline(R"(
    data_config { dataset_type: CsvDataset fg_mode: FG_DAG }
    feature_configs { sequence_id_feature { feature_name: "items" num_buckets: 10 embedding_dim: 4 } }
    feature_configs { sequence_raw_feature { feature_name: "prices" value_dim: 2 separator: "|" } })",
                                                "test.config");
  const FeatureLayout layout_ = layout_of(config_);
  const RequestColumns columns_{config_.data_config(), layout_};
};

TEST_F(RequestSequences, AreTexts) {
  const Batch batch = batch_of(Request()
                                   .add_text("items", {2, 1}, {"5;;7", "9"})
                                   .add_text("prices", {2, 1}, {"1|2;3|4", ""}));
  expect_items(batch);
  EXPECT_THAT(batch.sequences[1].offsets, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.sequences[1].numbers, ElementsAre(1, 2, 3, 4, 0, 0));
}

TEST_F(RequestSequences, AreValuesWithOffsets) {
  const Batch batch =
      batch_of(Request()
                   .add<int64_t>("items", DataType::kInt64, {4}, {5, kMissingId, 7, 9})
                   .add<int32_t>("items.offsets", DataType::kInt32, {3}, {0, 3, 4})
                   .add<float>("prices", DataType::kFp32, {2, 2}, {1, 2, 3, 4})
                   .add<int64_t>("prices.offsets", DataType::kInt64, {3}, {0, 2, 2}));
  expect_items(batch);
  EXPECT_THAT(batch.sequences[1].offsets, ElementsAre(0, 2, 3)) << "the default for the second row";
  EXPECT_THAT(batch.sequences[1].numbers, ElementsAre(1, 2, 3, 4, 0, 0));
}

TEST_F(RequestSequences, ArePaddedWithLengths) {
  const Batch batch =
      batch_of(Request()
                   .add<int64_t>("items", DataType::kInt64, {2, 3}, {5, kMissingId, 7, 9, 99, 99})
                   .add<int64_t>("items.lengths", DataType::kInt64, {2, 1}, {3, 1})
                   .add<float>("prices", DataType::kFp32, {2, 1, 2}, {1, 2, 3, 4}));
  expect_items(batch);
  EXPECT_THAT(batch.sequences[1].numbers, ElementsAre(1, 2, 3, 4)) << "all without lengths";
}

TEST_F(RequestSequences, HaveElementsOfText) {
  const Batch batch =
      batch_of(Request()
                   .add_text("items", {2, 3}, {"5", "", "7", "9", "x", "x"})
                   .add<int32_t>("items.lengths", DataType::kInt32, {2}, {3, 1})
                   .add_text("prices", {2}, {"1|2", "3|4"})
                   .add<int32_t>("prices.offsets", DataType::kInt32, {3}, {0, 1, 2}));
  expect_items(batch);
  EXPECT_THAT(batch.sequences[1].numbers, ElementsAre(1, 2, 3, 4));
}

TEST_F(RequestSequences, ThatDoNotFitAreRefused) {
  const auto refused = [&](const Request& request, const std::string& what) {
    EXPECT_THAT([&] { columns_.check(request.get()); }, ThrowsMessage<Error>(HasSubstr(what)));
  };
  const std::vector<int64_t> four = {1, 2, 3, 4};
  const auto items = [&](std::vector<int64_t> shape) {
    Request request;
    request.add<int64_t>("items", DataType::kInt64, std::move(shape), four);
    return request;
  };
  refused(items({4}).add<int32_t>("items.offsets", DataType::kInt32, {3}, {0, 3, 5}),
          "input 'items.offsets' ends with 5, but 'items' has 4 elements");
  refused(items({4}).add<int32_t>("items.offsets", DataType::kInt32, {3}, {1, 3, 4}),
          "'items.offsets' starts with 1, expected 0");
  refused(items({4}).add<int32_t>("items.offsets", DataType::kInt32, {4}, {0, 3, 2, 4}),
          "'items.offsets' falls from 3 to 2 at row 1");
  refused(items({4}).add<float>("items.offsets", DataType::kFp32, {3}, {0, 3, 4}),
          "input 'items.offsets' is FP32, expected INT32 or INT64");
  refused(items({2, 2}).add<int32_t>("items.lengths", DataType::kInt32, {2}, {2, 3}),
          "'items.lengths', row 1: 3 is not a length (expected 0 to 2)");
  refused(items({2, 2}).add<int32_t>("items.lengths", DataType::kInt32, {1}, {2}),
          "'items.lengths' has 1 rows, but 'items' has 2");
  refused(items({4}), "'items' has shape [4], expected [rows, elements]");
  refused(Request().add_text("items", {1, 2}, {"1", "2"}), "expected [rows, 1]: one text per row");
  refused(Request().add<uint16_t>("items", DataType::kFp16, {1, 1}, {1}),
          "input 'items' is FP16, expected INT64");
  refused(Request().add<float>("prices", DataType::kFp32, {1, 1000000, 0}, {}),
          "expected at least one value in an element");
  refused(items({2, 2}), "missing: prices");
  refused(items({2, 2}).add<int32_t>("items.sizes", DataType::kInt32, {1}, {2}),
          "unexpected inference input 'items.sizes'");
  refused(items({2, 2}).add<float>("prices", DataType::kFp32, {3, 0, 2}, {}),
          "input 'prices' has 3 rows, but 'items' has 2");
}

TEST_F(RequestSequences, WithTextThatIsNoValueNameTheRow) {
  Request request = with_prices();
  request.add_text("items", {2, 1}, {"5", "6;x"});
  DecodedPiece piece;
  columns_.clear(piece);
  EXPECT_THAT([&] { columns_.append(request.get(), columns_.check(request.get()), piece); },
              ThrowsMessage<Error>(HasSubstr("input 'items', row 1: \"x\" is not an integer")));
}

TEST(RequestColumns, OneInputServesFeaturesThatReadAColumnInDifferentWays) {
  const PipelineConfig config = parse_pipeline(R"(
    data_config { dataset_type: CsvDataset fg_mode: FG_DAG }
    feature_configs { id_feature { feature_name: "city" num_buckets: 10 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "town" expression: "user:city" hash_bucket_size: 100 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "size" expression: "user:city" } })",
                                               "test.config");
  const FeatureLayout layout = layout_of(config);
  const RequestColumns columns(config.data_config(), layout);
  ASSERT_EQ(columns.inputs().size(), 1u);
  EXPECT_EQ(columns.inputs()[0].type, DataType::kBytes);
  Request request;
  request.add_text("city", {2, 1}, {"3", ""});
  DecodedPiece piece;
  columns.clear(piece);
  columns.append(request.get(), columns.check(request.get()), piece);
  columns.finish(piece);
  Batch batch;
  FeatureTransform(config.data_config(), layout, LabelCheck::kIgnore, columns.requests(),
                   columns.columns())
      .apply(piece, batch);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(3));
  EXPECT_THAT(batch.sparse[0].offsets, ElementsAre(0, 1, 1));
  EXPECT_THAT(batch.sparse[1].keys, ElementsAre(13));
  EXPECT_THAT(batch.dense, ElementsAre(3, 0));
}

}  // namespace
}  // namespace emblem
