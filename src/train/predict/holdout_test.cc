// Runs that evaluate on rows which they hold out of training.
#include <gmock/gmock.h>

#include "checkpoint/checkpoint.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "model/check/check.h"
#include "train/report/run_report.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

constexpr int kRows = 1000;

class HoldoutRunTest : public testing::Test {
 protected:
  HoldoutRunTest() {
    std::string text = "label,id\n";
    for (int i = 0; i < kRows; ++i) text += cat(i % 10 < 5 ? 1 : 0, ",", i % 10, "\n");
    folder_.write("data.csv", text);
  }

  PipelineConfig config(const std::vector<std::string>& changes = {}) const {
    const PipelineConfig config =
        parse_pipeline(cat("train_input_path: '", folder_.path("data.csv"), "' model_dir: '",
                           folder_.path("model"), R"('
        train_config { num_epochs: 2 eval_epochs: 1 save_checkpoints_steps: 0
                       sparse_optimizer { adagrad_optimizer { lr: 0.1 } }
                       dense_optimizer { adam_optimizer { lr: 0.01 } } }
        data_config { with_header: true label_fields: "label" batch_size: 32 num_workers: 1
                      shuffle: true holdout_ratio: 0.25 }
        feature_configs { id_feature { feature_name: "id" num_buckets: 10 embedding_dim: 4 } }
        model_config {
          feature_groups { group_name: "deep" feature_names: "id" }
          dnn { deep { hidden_units: 8 } } })"),
                       "test", changes);
    check_pipeline(config);
    return config;
  }

  std::string weights(const std::string& model_dir) const {
    return read_text_file(find_checkpoint(folder_.path(model_dir)) + "/dense.safetensors");
  }

  const TempFolder folder_;
};

TEST_F(HoldoutRunTest, TrainsOnSomeRowsAndEvaluatesTheOthers) {
  const TrainSummary summary = train({}, config(), {});
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.rows / 2 + summary.evaluation->rows, kRows);
  EXPECT_NEAR(static_cast<double>(summary.evaluation->rows), 250, 50);
  EXPECT_EQ(summary.evaluations, 2);
}

TEST_F(HoldoutRunTest, ACheckpointIsEvaluatedOnTheRowsHeldOutUnlessItIsGivenAnInput) {
  const TrainSummary summary = train({}, config(), {});
  RestoredModel model({}, folder_.path("model"), "", {});
  const Evaluation again = model.evaluate("");
  EXPECT_EQ(again.rows, summary.evaluation->rows);
  EXPECT_EQ(again.metrics, summary.evaluation->metrics);
  EXPECT_EQ(model.evaluate(folder_.path("data.csv")).rows, kRows);
  EXPECT_EQ(model.predict(folder_.path("data.csv"), folder_.path("out.csv")).rows, kRows);
}

TEST_F(HoldoutRunTest, RowsOfTrainingAreNotEvaluatedAsRowsHeldOut) {
  train({}, config(), {});
  for (const std::string change : {"train_config.seed=7", "data_config.holdout_ratio=0.5"}) {
    RestoredModel model({}, folder_.path("model"), "", std::vector{change});
    EXPECT_THAT([&] { model.evaluate(""); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(testing::HasSubstr(change.substr(0, change.find('=')) + " is "),
                                   testing::HasSubstr("rows of its training would be evaluated"))));
    EXPECT_EQ(model.evaluate(folder_.path("data.csv")).rows, kRows);
  }
}

TEST_F(HoldoutRunTest, AResumedRunHoldsOutTheSameRows) {
  train({}, config(), {});
  const PipelineConfig other = config({cat("model_dir=", folder_.path("other"))});
  train({}, other, {.max_steps = 7});
  train({}, other, {.model_dir = ModelDir::kResume});
  EXPECT_EQ(weights("other"), weights("model"));
}

TEST_F(HoldoutRunTest, AResumedRunMayNotHoldOutOtherRows) {
  train({}, config(), {.max_steps = 7});
  EXPECT_THAT(
      [&] {
        train({}, config({"data_config.holdout_ratio=0.5"}), {.model_dir = ModelDir::kResume});
      },
      testing::ThrowsMessage<Error>(
          testing::HasSubstr("data_config.holdout_ratio is 0.5, was 0.25")));
}

}  // namespace
}  // namespace emblem
