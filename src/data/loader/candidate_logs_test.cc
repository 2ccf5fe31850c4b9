// How often batches say that items are candidates by chance.
#include <gmock/gmock.h>

#include <cmath>

#include "data/loader/loader.h"
#include "data/test_data.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class CandidateLogsTest : public testing::Test {
 protected:
  CandidateLogsTest() {
    std::string rows = "clk,user,item\n";
    for (int row = 0; row < 60; ++row) rows += cat("1,", row % 7, ",", row % 10, "\n");
    folder_.write("rows.csv", rows);
    // Item 3 twice, items 8 and 9 not at all, or without weight.
    folder_.write("often.txt",
                  "id:int64\tweight:float\n0\t1\n1\t2\n2\t3\n3\t1\n4\t5\n5\t6\n6\t7\n"
                  "7\t8\n3\t3\n9\t0\n");
    std::string items = "id:int64\tweight:float\tattrs:string\n";
    for (int i = 0; i < 10; ++i) items += cat(i, "\t", i + 1, "\t", i, "\n");
    folder_.write("items.txt", items);
  }

  std::string text(const std::string& sampler, const std::string& settings) const {
    return cat(
        R"(data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG
        label_fields: "clk" )",
        sampler, R"( }
      feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "item" num_buckets: 20 embedding_dim: 4 } }
      model_config { feature_groups { group_name: "u" feature_names: "user" }
        feature_groups { group_name: "i" feature_names: "item" }
        dssm { user_tower { input: "u" } item_tower { input: "i" } )",
        settings, " } }");
  }
  std::string sampler() const {
    return cat("negative_sampler { input_path: '", folder_.path("items.txt"),
               "' num_sample: 8 attr_fields: 'item' item_id_field: 'item' }");
  }
  std::string frequencies() const {
    return cat("item_id_feature: 'item' logq_correction { input_path: '", folder_.path("often.txt"),
               "' }");
  }

  LoaderOptions options() const {
    LoaderOptions options;
    options.input = folder_.path("rows.csv");
    options.batch_size = 16;
    return options;
  }

  std::vector<Batch> read(const LoaderOptions& options, const std::string& pipeline) const {
    const TestPipeline of(pipeline);
    Loader loader(of.config.data_config(), of.features, options);
    std::vector<Batch> batches;
    for (Batch batch; loader.next(batch);) batches.push_back(batch);
    return batches;
  }

  // `expected` gives how often an item is a candidate in a batch of as many rows.
  template <class Expected>
  void expect_logs(const std::string& pipeline, size_t sampled, const Expected& expected) const {
    const std::vector<Batch> batches = read(options(), pipeline);
    ASSERT_EQ(batches.size(), 4u);
    for (const Batch& batch : batches) {
      const auto& keys = batch.sparse[1].keys;
      ASSERT_EQ(keys.size(), static_cast<size_t>(batch.rows) + sampled);
      ASSERT_EQ(batch.candidate_logs.size(), keys.size());
      for (size_t i = 0; i < keys.size(); ++i)
        EXPECT_NEAR(batch.candidate_logs[i],
                    std::log(expected(keys[i], static_cast<double>(batch.rows))), 1e-5)
            << keys[i];
    }
  }

  TempFolder folder_;
};

// The least weight is 1.
double share_of_rows(int64_t item) {
  constexpr double kWeights[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 1};
  return kWeights[item] / 36.0;
}

double sampled_share(int64_t item) { return static_cast<double>(item + 1) / 55.0; }

TEST_F(CandidateLogsTest, OfABatchFollowFromHowOftenRowsHaveItems) {
  expect_logs(text("", "in_batch_negative: true " + frequencies()), 0,
              [](int64_t item, double rows) { return rows * share_of_rows(item); });
}

TEST_F(CandidateLogsTest, OfSampledItemsFollowFromTheirWeights) {
  expect_logs(text(sampler(), "logq_correction {}"), 8,
              [](int64_t item, double) { return 8 * sampled_share(item); });
}

TEST_F(CandidateLogsTest, OfBothAreThoseOfTheSum) {
  expect_logs(text(sampler(), "in_batch_negative: true logq_correction {}"), 8,
              [](int64_t item, double rows) { return (rows + 8) * sampled_share(item); });
  expect_logs(text(sampler(), "in_batch_negative: true " + frequencies()), 8,
              [](int64_t item, double rows) {
                return rows * share_of_rows(item) + 8 * sampled_share(item);
              });
}

TEST_F(CandidateLogsTest, AreNotThereWithoutACorrectionOrForPredictions) {
  for (const Batch& batch : read(options(), text("", "in_batch_negative: true")))
    EXPECT_THAT(batch.candidate_logs, IsEmpty());
  const std::string pipeline = text("", "in_batch_negative: true " + frequencies());
  folder_.write("often.txt", "nothing of that kind\n");
  LoaderOptions predicting = options();
  predicting.label_check = LabelCheck::kIgnore;
  for (const Batch& batch : read(predicting, pipeline))
    EXPECT_THAT(batch.candidate_logs, IsEmpty());
}

TEST_F(CandidateLogsTest, BadFilesAreNamedWithTheirLine) {
  const auto refused = [&](const std::string& content) {
    folder_.write("often.txt", content);
    return [this] { read(options(), text("", "in_batch_negative: true " + frequencies())); };
  };
  const std::string header = "id:int64\tweight:float\n";
  EXPECT_THAT(refused("item\toften\n"), ThrowsMessage<Error>(HasSubstr("often.txt, line 1: ")));
  EXPECT_THAT(refused(header + "1\t1\n2\n"),
              ThrowsMessage<Error>(HasSubstr("often.txt, line 3: the line has 1 fields")));
  EXPECT_THAT(refused(header + "1\t-1\n"),
              ThrowsMessage<Error>(HasSubstr("often.txt, line 2: the weight is \"-1\"")));
  EXPECT_THAT(refused(header + "500\t1\n"), ThrowsMessage<Error>(HasSubstr("often.txt, row 1")));
  EXPECT_THAT(refused(header + "1\t0\n"),
              ThrowsMessage<Error>(HasSubstr("has no items with a weight above 0")));
}

}  // namespace
}  // namespace emblem
