// Rows that are held out of training.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "data/convert.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/loader/content_holdout.h"
#include "data/loader/loader.h"
#include "data/test_data.h"

namespace emblem {
namespace {

constexpr int kRows = 2000;

// Two files whose rows are numbered by column id.
class HoldoutTest : public testing::Test {
 protected:
  HoldoutTest() {
    folder_.write("data/a.csv", numbered_rows(0, 1500));
    folder_.write("data/b.csv", numbered_rows(1500, kRows));
  }

  static std::string numbered_rows(int begin, int end) {
    std::string text = "label,id\n";
    for (int i = begin; i < end; ++i) text += cat(i % 2, ",", i, "\n");
    return text;
  }

  TestPipeline pipeline(const std::string& data = "", double holdout_ratio = 0.2) const {
    return TestPipeline(cat("train_input_path: '", folder_.path("data"), R"('
      train_config { num_epochs: 1 seed: 3 }
      data_config { with_header: true label_fields: "label" fg_mode: FG_DAG batch_size: 64 num_workers: 2
                    holdout_ratio: )",
                            holdout_ratio, " ", data, R"( }
      feature_configs { id_feature { feature_name: "id" num_buckets: 2000 embedding_dim: 4 } })"));
  }

  static std::vector<int64_t> read(const TestPipeline& pipeline, const LoaderOptions& options) {
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    std::vector<int64_t> rows;
    for (Batch batch; loader.next(batch);)
      rows.insert(rows.end(), batch.sparse[0].keys.begin(), batch.sparse[0].keys.end());
    return rows;
  }
  static std::vector<int64_t> trained(const TestPipeline& pipeline) {
    return read(pipeline, training_loader_options(pipeline.config));
  }
  static std::vector<int64_t> held_out(const TestPipeline& pipeline) {
    return read(pipeline, evaluation_loader_options(pipeline.config));
  }
  static std::vector<int64_t> sorted(std::vector<int64_t> rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  TempFolder folder_;
};

TEST_F(HoldoutTest, EveryRowIsTrainedOnOrHeldOut) {
  std::vector<int64_t> rows = trained(pipeline());
  const std::vector<int64_t> others = held_out(pipeline());
  EXPECT_NEAR(static_cast<double>(others.size()), 0.2 * kRows, 60);
  rows.insert(rows.end(), others.begin(), others.end());
  std::vector<int64_t> all;
  for (int i = 0; i < kRows; ++i) all.push_back(i);
  EXPECT_EQ(sorted(rows), all);
}

TEST_F(HoldoutTest, TheSplitDependsOnSeedAndRowAlone) {
  const std::vector<int64_t> expected = held_out(pipeline());
  LoaderOptions options = evaluation_loader_options(pipeline().config);
  options.workers = 5;
  options.batch_size = 7;
  options.piece_bytes = 300;
  EXPECT_EQ(read(pipeline(), options), expected);
  EXPECT_EQ(sorted(trained(pipeline("shuffle: true shuffle_buffer_size: 4"))), trained(pipeline()));
  options.seed = 4;
  EXPECT_NE(read(pipeline(), options), expected);
}

TEST_F(HoldoutTest, SamplingTakesRowsFromTrainingAlone) {
  const std::vector<int64_t> rows = trained(pipeline("sample_ratio: 0.5"));
  EXPECT_NEAR(static_cast<double>(rows.size()), 0.4 * kRows, 80);
  EXPECT_THAT(trained(pipeline()), testing::IsSupersetOf(rows));
  EXPECT_EQ(held_out(pipeline("sample_ratio: 0.5")), held_out(pipeline()));
}

TEST_F(HoldoutTest, ALargerShareHoldsOutTheSameRowsAndMore) {
  const TestPipeline more = pipeline("", 0.4);
  EXPECT_THAT(held_out(more), testing::IsSupersetOf(held_out(pipeline())));
}

TEST_F(HoldoutTest, AnEmptyPartIsAnError) {
  const TestPipeline tiny = pipeline("", 1e-9);
  EXPECT_THAT(loader_error(tiny, evaluation_loader_options(tiny.config)),
              testing::HasSubstr("no rows (after sampling, holdout_ratio and bad rows)"));
}

// The same rows in another order, in other files and in another format.
TEST_F(HoldoutTest, FieldsDecideWhateverTheOrderAndTheFormat) {
  const std::string fields = "holdout_fields: 'id' holdout_fields: 'x'";
  const auto row = [](int i) {
    return cat(i % 2, ",", i, ",", i * 0.1, ",", i % 3 == 0 ? "True" : "false", "\n");
  };
  std::string text = "label,id,x,flag\n", reversed = text;
  for (int i = 0; i < kRows; ++i) text += row(i);
  for (int i = kRows; i-- > 0;) reversed += row(i);
  const auto of = [&](const std::string& input, const std::string& type) {
    TestPipeline one = pipeline(fields + " dataset_type: " + type);
    one.config.set_train_input_path(input);
    return one;
  };
  const TestPipeline plain = of(folder_.write("one.csv", text), "CsvDataset");
  const std::vector<int64_t> expected = sorted(held_out(plain));
  EXPECT_NEAR(static_cast<double>(expected.size()), 0.2 * kRows, 60);
  std::vector<int64_t> rows = trained(plain);
  rows.insert(rows.end(), expected.begin(), expected.end());
  EXPECT_EQ(std::ssize(rows), kRows);
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), static_cast<size_t>(kRows));
  const TestPipeline turned = of(folder_.write("reversed.csv", reversed), "CsvDataset");
  EXPECT_EQ(sorted(held_out(turned)), expected);
  if (!has_columnar_formats()) return;
  ConvertOptions options;
  options.from = describe_input(folder_.path("reversed.csv"), {});
  options.to = folder_.path("parquet");
  options.format = "parquet";
  convert(Context{}, options);
  EXPECT_EQ(sorted(held_out(of(folder_.path("parquet"), "ParquetDataset"))), expected);
}

TEST(ContentHash, IsEqualForEqualValues) {
  const auto equal = [](const char* a, const char* b) {
    return content_hash(a) == content_hash(b);
  };
  EXPECT_TRUE(equal("0.10", "0.1"));
  EXPECT_TRUE(equal(" 7", "7.0"));
  EXPECT_TRUE(equal("1e3", "1000"));
  EXPECT_TRUE(equal("True", "1"));
  EXPECT_TRUE(equal("NA", ""));
  EXPECT_TRUE(equal("-9223372036854775808", "")) << "missing in files with types";
  EXPECT_FALSE(equal("9223372036854775806", "9223372036854775807"));
  EXPECT_FALSE(equal("a", "b"));
  EXPECT_FALSE(equal("0.1", "0.2"));
}

}  // namespace
}  // namespace emblem
