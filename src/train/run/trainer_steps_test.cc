// A training that its caller steps.
#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "model/check/check.h"
#include "train/report/run_report.h"
#include "train/run/trainer.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class TrainerSteps : public testing::Test {
 protected:
  void SetUp() override {
    std::string rows = "label,x,id\n";
    for (int i = 0; i < 100; ++i) rows += cat(i % 3 == 0, ",", i % 7, ",", i * 7 % 10, "\n");
    folder_.write("train.csv", rows);
  }

  PipelineConfig config(const std::string& model_dir, const std::string& train = "") const {
    const PipelineConfig config = parse_pipeline(
        cat("train_input_path: '", folder_.path("train.csv"), "' eval_input_path: '",
            folder_.path("train.csv"), "' model_dir: '", folder_.path(model_dir), R"('
        train_config { sparse_optimizer { sgd_optimizer { lr: 1 } }
                       dense_optimizer { sgd_optimizer { lr: 0.1 } }
                       num_epochs: 1 save_checkpoints_steps: 0 )",
            train, R"( }
        data_config { dataset_type: CsvDataset with_header: true label_fields: "label"
                      batch_size: 20 num_workers: 1 }
        feature_configs { raw_feature { feature_name: "x" } }
        feature_configs { id_feature { feature_name: "id" num_buckets: 10 embedding_dim: 4 } }
        model_config {
          feature_groups { group_name: "deep" feature_names: "x" feature_names: "id" }
          dnn { deep { hidden_units: 8 } } })"),
        "test");
    check_pipeline(config);
    return config;
  }

  static std::string weights(const std::string& checkpoint) {
    return read_text_file(checkpoint + "/dense.safetensors") +
           read_text_file(checkpoint + "/tables/id_emb/emb_vector");
  }

  const TempFolder folder_;
};

TEST_F(TrainerSteps, LearnWhatARunToTheEndLearns) {
  const TrainSummary whole = train({}, config("whole"), {});
  Trainer trainer({}, config("stepped"), {});
  int steps = 0;
  while (trainer.step()) ++steps;
  const TrainSummary stepped = trainer.close();
  EXPECT_EQ(steps, 5);
  EXPECT_EQ(stepped.steps, 5);
  EXPECT_EQ(stepped.rows, 100);
  EXPECT_EQ(weights(stepped.checkpoint), weights(whole.checkpoint));
  EXPECT_EQ(stepped.evaluation->metrics, whole.evaluation->metrics);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("stepped/train_log.jsonl")))
      << "log files are those of the program";
}

TEST_F(TrainerSteps, TakeBatchesThatAreGiven) {
  const TrainSummary whole = train({}, config("whole"), {});
  const PipelineConfig given = config("given");
  Trainer trainer({}, given, {.batches = TrainBatches::kGiven});
  Loader loader(given.data_config(), trainer.layout(), training_loader_options(given));
  for (Batch batch; loader.next(batch);) EXPECT_TRUE(trainer.step(batch));
  EXPECT_EQ(weights(trainer.save()), weights(whole.checkpoint));
  EXPECT_EQ(trainer.evaluate()->metrics, whole.evaluation->metrics);
  EXPECT_EQ(trainer.close().rows, 100);
  EXPECT_THAT([&] { Trainer({}, config("other"), {}).step(Batch{}); },
              ThrowsMessage<Error>(HasSubstr("this run reads its own data")));
}

TEST_F(TrainerSteps, ReportThroughCallbacks) {
  std::vector<int64_t> steps, due, evaluated;
  std::vector<std::string> saved;
  int64_t rows = 0;
  TrainOptions options;
  options.callbacks = {
      .step =
          [&](const StepReport& report) {
            steps.push_back(report.step);
            if (report.is_due) due.push_back(report.step);
            EXPECT_EQ(report.rows, 20 * report.step);
          },
      .evaluation = [&](const EvaluationReport& report) { evaluated.push_back(report.step); },
      .checkpoint = [&](const std::string& latest) { saved.push_back(latest); },
      .evaluating = [&](const PassProgress& pass) { rows = pass.rows; }};
  Trainer trainer({}, config("model", "eval_steps: 3 log_step_count_steps: 2"), options);
  while (trainer.step()) {
  }
  trainer.close();
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 5)) << "the last again, as it was not due before";
  EXPECT_THAT(due, ElementsAre(2, 4, 5));
  EXPECT_THAT(evaluated, ElementsAre(3, 5));
  EXPECT_EQ(saved.size(), 1u) << "after the evaluation of step 3";
  EXPECT_EQ(rows, 100);
}

TEST_F(TrainerSteps, OfFp16OnACpuAreComputedInFp32WithAWarning) {
  std::vector<std::string> warnings;
  TrainOptions options;
  options.callbacks.warning = [&](const std::string& text) { warnings.push_back(text); };
  const Trainer fp32({}, config("model"), options);
  EXPECT_THAT(warnings, IsEmpty());
  const Trainer fp16({}, config("other", "mixed_precision: 'FP16'"), options);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("train_config.mixed_precision FP16 has no effect on a CPU")));
}

TEST_F(TrainerSteps, EndWhenTheirTokenIsCancelled) {
  bool is_cancelled = false;
  TrainOptions options;
  options.cancel = CancelToken([&] { return is_cancelled; });
  Trainer trainer({}, config("model"), options);
  EXPECT_TRUE(trainer.step());
  EXPECT_TRUE(trainer.step());
  is_cancelled = true;
  EXPECT_FALSE(trainer.step());
  EXPECT_FALSE(trainer.evaluate());
  const TrainSummary summary = trainer.close();
  EXPECT_EQ(summary.outcome, TrainOutcome::kInterrupted);
  EXPECT_EQ(summary.steps, 2);
  EXPECT_EQ(read_manifest(summary.checkpoint).step, 2);

  options.cancel = {};
  options.model_dir = ModelDir::kResume;
  Trainer resumed({}, config("model"), options);
  while (resumed.step()) {
  }
  const TrainSummary whole = train({}, config("whole"), {});
  EXPECT_EQ(weights(resumed.close().checkpoint), weights(whole.checkpoint));
}

}  // namespace
}  // namespace emblem
