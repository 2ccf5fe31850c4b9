// Rows that are held out of training.
#include <gmock/gmock.h>

#include <algorithm>

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

}  // namespace
}  // namespace emblem
