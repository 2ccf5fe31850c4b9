// Whole runs on small data: what they stop for, restore, keep, refuse and report.
#include "train/run/trainer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/results.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "embedding/files/delta_files.h"
#include "model/check/check.h"
#include "train/report/run_report.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

constexpr int kTrainerRows = 400, kTrainerBatch = 20;

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train.csv", rows_of(false));
    folder_.write("good.csv", rows_of(false));
    folder_.write("bad.csv", rows_of(true));
  }

  // The label follows from the id; against it where `inverted`: training makes evaluations on such
  // data worse from the first step on (embeddings learn fast enough to outweigh biases that
  // settle).
  static std::string rows_of(bool inverted) {
    std::string text = "label,x,id\n";
    for (int i = 0; i < kTrainerRows; ++i) {
      const int id = i * 7 % 10;
      text += cat((id < 5) != inverted ? 1 : 0, ",", i % 3, ",", id, "\n");
    }
    return text;
  }

  // `train` is more of train_config; `eval` is "good" or "bad".
  PipelineConfig config(const std::string& train, const std::string& eval = "good",
                        const std::vector<std::string>& changes = {}) const {
    const PipelineConfig config = parse_pipeline(
        cat("train_input_path: '", folder_.path("train.csv"), "' eval_input_path: '",
            folder_.path(eval + ".csv"), "' model_dir: '", folder_.path("model"), R"('
        train_config {
          sparse_optimizer { sgd_optimizer { lr: 20 } }
          save_checkpoints_steps: 0 )",
            train, R"( }
        data_config { dataset_type: CsvDataset with_header: true label_fields: "label"
                      batch_size: 20 num_workers: 1 }
        feature_configs { raw_feature { feature_name: "x" } }
        feature_configs { id_feature { feature_name: "id" num_buckets: 10 embedding_dim: 4 } }
        model_config {
          feature_groups { group_name: "deep" feature_names: "x" feature_names: "id" }
          dnn { deep { hidden_units: 8 } } })"),
        "test", changes);
    check_pipeline(config);
    return config;
  }

  static TrainSummary run(const PipelineConfig& config, const TrainOptions& options = {}) {
    return train({}, config, options);
  }
  static TrainSummary resume(const PipelineConfig& config) {
    return train({}, config, {.model_dir = ModelDir::kResume});
  }

  std::string model(const std::string& name = "") const { return folder_.path("model/" + name); }

  std::vector<int64_t> checkpoints() const {
    std::vector<int64_t> steps;
    for (const CheckpointEntry& entry : list_checkpoints(model())) steps.push_back(entry.step);
    return steps;
  }
  Manifest manifest(int64_t step) const { return read_manifest(checkpoint_path(model(), step)); }
  std::string weights(int64_t step) const {
    const std::string checkpoint = checkpoint_path(model(), step);
    return read_text_file(checkpoint + "/dense.safetensors") +
           read_text_file(checkpoint + "/tables/id_emb/emb_vector");
  }
  std::vector<ResultLine> evaluations() const {
    return read_results(model("train_eval_result.jsonl"));
  }

  const TempFolder folder_;
};

constexpr const char* kTrainerAdam = " dense_optimizer { adam_optimizer { lr: 0.05 } } ";
constexpr const char* kWatchLoss =
    " early_stopping { metric: 'log_loss' patience: 2 min_delta: 0 } num_epochs: 5 eval_steps: 2 ";

// ---- early stopping ----

TEST_F(TrainerTest, EarlyStoppingEndsARunThatNoLongerGains) {
  const TrainSummary summary = run(config(cat(kTrainerAdam, kWatchLoss), "bad"));
  EXPECT_EQ(summary.outcome, TrainOutcome::kStoppedEarly);
  EXPECT_EQ(summary.steps, 6) << "the first of the evaluations at 2, 4 and 6 is the best";
}

TEST_F(TrainerTest, EarlyStoppingLetsARunGoOnThatGains) {
  const TrainSummary summary = run(config(cat(kTrainerAdam, kWatchLoss), "good"));
  EXPECT_EQ(summary.outcome, TrainOutcome::kFinished);
  EXPECT_EQ(summary.steps, 5 * kTrainerRows / kTrainerBatch);
}

TEST_F(TrainerTest, TheBestWeightsAreRestoredAndAreTheResult) {
  const TrainSummary summary = run(config(cat(kTrainerAdam, kWatchLoss), "bad"));
  EXPECT_THAT(checkpoints(), ElementsAre(2, 6));
  EXPECT_EQ(weights(6), weights(2));
  const double best = manifest(2).metrics.at("log_loss");
  EXPECT_EQ(manifest(6).metrics.at("log_loss"), best);
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.evaluation->at("log_loss"), best);

  const auto lines = evaluations();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_GT(lines[2].values.at("log_loss"), best) << "the evaluation of step 6 stays";
  EXPECT_EQ(lines[3].step, 6);
  EXPECT_EQ(lines[3].restored_step, 2);
  EXPECT_EQ(lines[3].values.at("log_loss"), best);
}

TEST_F(TrainerTest, WithoutRestoreBestTheLastWeightsAreTheResult) {
  const TrainSummary summary = run(config(cat(kTrainerAdam, kWatchLoss), "bad",
                                          {"train_config.early_stopping.restore_best=false"}));
  EXPECT_EQ(summary.outcome, TrainOutcome::kStoppedEarly);
  EXPECT_THAT(checkpoints(), ElementsAre(6));
  EXPECT_EQ(evaluations().back().restored_step, std::nullopt);
  EXPECT_EQ(summary.evaluation->at("log_loss"), evaluations().back().values.at("log_loss"));
}

TEST_F(TrainerTest, OnlyTheBestCheckpointIsKeptForRestoring) {
  run(config(cat(kTrainerAdam, kWatchLoss, " keep_checkpoint_max: 0 "), "good"));
  // Every evaluation was the best so far.
  EXPECT_THAT(checkpoints(), ElementsAre(100));
  EXPECT_FALSE(manifest(100).only_best);
}

TEST_F(TrainerTest, ScheduledCheckpointsStayBesidesTheBest) {
  run(config(cat(kTrainerAdam, kWatchLoss, " keep_checkpoint_max: 2 "), "bad",
             {"train_config.save_checkpoints_steps=5", "train_config.early_stopping.patience=6"}));
  // The best of step 2, and two more: the scheduled one of step 10 and the last.
  EXPECT_THAT(checkpoints(), ElementsAre(2, 10, 14));
  EXPECT_TRUE(manifest(2).only_best);
}

TEST_F(TrainerTest, AResumedRunRemovesTheBestCheckpointOfTheRunBefore) {
  const auto settings = [&](int steps) {
    return config(cat(kTrainerAdam, kWatchLoss), "good",
                  {cat("train_config.num_epochs=", steps / 20)});
  };
  run(settings(20), {.max_steps = 3});
  EXPECT_THAT(checkpoints(), ElementsAre(2, 3));
  EXPECT_TRUE(manifest(2).only_best);
  resume(settings(20));
  EXPECT_THAT(checkpoints(), ElementsAre(3, 20));
}

TEST_F(TrainerTest, AResumedRunStopsWhereAnUninterruptedOneDoes) {
  const PipelineConfig settings = config(cat(kTrainerAdam, kWatchLoss), "bad");
  run(settings, {.max_steps = 5});
  const TrainSummary summary = resume(settings);
  EXPECT_EQ(summary.outcome, TrainOutcome::kStoppedEarly);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_EQ(weights(6), weights(2));
}

TEST_F(TrainerTest, ABestCheckpointThatIsGoneIsMentioned) {
  const PipelineConfig settings = config(cat(kTrainerAdam, kWatchLoss), "bad");
  run(settings, {.max_steps = 5});
  fs::remove_all(checkpoint_path(model(), 2));
  testing::internal::CaptureStderr();
  const TrainSummary summary = resume(settings);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("warning: cannot restore the best weights, of step 2"));
  EXPECT_EQ(summary.steps, 6);
  EXPECT_GT(summary.evaluation->at("log_loss"), 0.0);
}

// ---- schedules, logs, deltas ----

TEST_F(TrainerTest, ReduceOnPlateauLowersTheRateWhenEvaluationsGetWorse) {
  run(config(R"(dense_optimizer { adam_optimizer { lr: 0.05 }
                  reduce_on_plateau_learning_rate { metric: 'log_loss' factor: 0.5 patience: 0 } }
                num_epochs: 1 eval_steps: 4 log_step_count_steps: 1)",
             "bad"));
  std::map<int64_t, double> rates;
  for (const ResultLine& line : read_results(model("train_log.jsonl")))
    rates[line.step] = line.values.at("lr_dense");
  EXPECT_NEAR(rates.at(4), 0.05, 1e-8);
  EXPECT_NEAR(rates.at(8), 0.05, 1e-8) << "one evaluation, and the second, which was worse";
  EXPECT_NEAR(rates.at(9), 0.025, 1e-8);
  EXPECT_NEAR(rates.at(13), 0.0125, 1e-8);
}

TEST_F(TrainerTest, ReduceOnPlateauKeepsTheRateWhileTheLossFalls) {
  run(config(R"(dense_optimizer { adam_optimizer { lr: 0.05 }
                  reduce_on_plateau_learning_rate { metric: 'log_loss' factor: 0.5 patience: 0 } }
                num_epochs: 1 eval_steps: 4 log_step_count_steps: 20)",
             "good"));
  EXPECT_NEAR(read_results(model("train_log.jsonl")).back().values.at("lr_dense"), 0.05, 1e-8);
}

TEST_F(TrainerTest, TheLogHasTheRateThatItsStepUsed) {
  run(config(R"(dense_optimizer { sgd_optimizer { lr: 0.5 }
                  manual_step_learning_rate { schedule_sizes: 1 schedule_sizes: 3
                                              learning_rates: 0.25 learning_rates: 0.125 } }
                num_epochs: 1 log_step_count_steps: 1)",
             "good",
             {"train_config.sparse_optimizer.exponential_decay_learning_rate.decay_size=1",
              "train_config.sparse_optimizer.exponential_decay_learning_rate.decay_factor=0.5"}),
      {.max_steps = 5});
  std::vector<double> dense, sparse;
  for (const ResultLine& line : read_results(model("train_log.jsonl"))) {
    dense.push_back(line.values.at("lr_dense"));
    sparse.push_back(line.values.at("lr_sparse"));
  }
  EXPECT_THAT(dense, ElementsAre(0.5, 0.5, 0.25, 0.25, 0.125));
  EXPECT_THAT(sparse, ElementsAre(20, 10, 5, 2.5, 1.25));
}

TEST_F(TrainerTest, ARunShorterThanTheLogIntervalLogsItsLastStep) {
  run(config(cat(kTrainerAdam, " num_epochs: 1 ")), {.max_steps = 7});
  const auto lines = read_results(model("train_log.jsonl"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].step, 7);
  EXPECT_GT(lines[0].values.at("loss"), 0.0);
  std::string events;
  for (const auto& entry : fs::directory_iterator(model()))
    if (entry.path().filename().string().starts_with("events."))
      events += read_text_file(entry.path().string());
  EXPECT_THAT(events, HasSubstr("loss/total"));
}

std::vector<int64_t> sequences(const std::string& folder) {
  std::vector<int64_t> numbers;
  for (const DeltaFolder& delta : list_deltas(folder)) numbers.push_back(delta.sequence);
  return numbers;
}

TEST_F(TrainerTest, DeltasAreWrittenEveryDeltaStepsAndWithCheckpoints) {
  const PipelineConfig settings = config(cat(kTrainerAdam, " num_epochs: 1 delta_steps: 3 "));
  run(settings, {.max_steps = 7});
  EXPECT_THAT(sequences(model("deltas")), ElementsAre(1, 2, 3)) << "of steps 3, 6 and 7";
  EXPECT_EQ(manifest(7).deltas, 3);
  for (const DeltaFolder& delta : list_deltas(model("deltas")))
    EXPECT_EQ(read_delta_manifest(delta).tables.at(0).rows, 10);
  fs::create_directories(model("deltas/.writing-delta-000000000009"));  // left by a killed process
  train({}, settings, {.model_dir = ModelDir::kResume, .max_steps = 9});
  EXPECT_THAT(sequences(model("deltas")), ElementsAre(1, 2, 3, 4)) << "of step 9, once";
  EXPECT_FALSE(fs::exists(model("deltas/.writing-delta-000000000009")));
}

TEST_F(TrainerTest, RestoredWeightsReachServersAsADelta) {
  run(config(cat(kTrainerAdam, kWatchLoss, " delta_steps: 100 "), "bad"));
  const DeltaFolder last = list_deltas(model("deltas")).back();
  EXPECT_EQ(read_text_file(last.path + "/id_emb/emb_vector"),
            read_text_file(checkpoint_path(model(), 2) + "/tables/id_emb/emb_vector"));
}

// ---- starting ----

TEST_F(TrainerTest, AMetricThatIsNotEvaluatedIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](const PipelineConfig& settings, const TrainOptions& options) {
    return [=] { train({}, settings, options); };
  };
  EXPECT_THAT(
      refused(config(cat(kTrainerAdam, kWatchLoss), "good", {"model_config.metrics=[{auc{}}]"}),
              {}),
      ThrowsMessage<Error>(HasSubstr("early_stopping.metric is \"log_loss\"")));
  EXPECT_THAT(
      refused(config(cat(kTrainerAdam, " num_epochs: 1 ")), {.stop_at = StopAt{"ndcg", 0.5}}),
      ThrowsMessage<Error>(HasSubstr("the metric of --stop-at is \"ndcg\"")));
  EXPECT_THAT(refused(config(cat(kTrainerAdam, " num_epochs: 1 "), "good", {"eval_input_path="}),
                      {.stop_at = StopAt{"auc", 0.5}}),
              ThrowsMessage<Error>(HasSubstr("--stop-at needs evaluations")));
  EXPECT_THAT(
      [&] {
        config(cat(kTrainerAdam, " num_epochs: 1 "), "good",
               {"model_config.metrics=[{recall_at_k{}}]"});
      },
      ThrowsMessage<Error>(HasSubstr("recall_at_k")));
  EXPECT_FALSE(fs::exists(folder_.path("model")));
}

TEST_F(TrainerTest, EvaluationDataThatCannotBeReadAreNoticedBeforeTraining) {
  folder_.write("other.csv", "label,y\n1,2\n");
  EXPECT_THAT([&] { run(config(cat(kTrainerAdam, " num_epochs: 1 "), "other")); },
              ThrowsMessage<Error>(HasSubstr("other.csv")));
  EXPECT_FALSE(fs::exists(folder_.path("model")));
}

TEST_F(TrainerTest, AResumeIsRefusedBeforeAnythingIsWritten) {
  run(config(cat(kTrainerAdam, " num_epochs: 1 ")), {.max_steps = 2});
  const std::string before = read_text_file(model("pipeline.config"));
  EXPECT_THAT(
      [&] {
        resume(config(" num_epochs: 1 dense_optimizer { adam_optimizer { lr: 0.02 } } ", "good",
                      {"train_config.seed=5", "data_config.batch_size=10"}));
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("model.ckpt-2 with other settings"),
                HasSubstr("train_config.dense_optimizer.adam_optimizer.lr is 0.02, was 0.05"),
                HasSubstr("train_config.seed is 5, was 1"),
                HasSubstr("data_config.batch_size is 10, was 20"), HasSubstr("--init-from"))));
  folder_.write("more.csv", rows_of(false));
  EXPECT_THAT(
      [&] {
        resume(config(cat(kTrainerAdam, " num_epochs: 1 "), "good",
                      {"train_input_path=" + folder_.path("more.csv")}));
      },
      ThrowsMessage<Error>(HasSubstr("position in the data would be meaningless")));
  EXPECT_EQ(read_text_file(model("pipeline.config")), before);
  EXPECT_FALSE(fs::exists(model(".lock")));
}

TEST_F(TrainerTest, AResumeMayChangeWhatDoesNotChangeTheResult) {
  run(config(cat(kTrainerAdam, " num_epochs: 1 ")), {.max_steps = 2});
  const TrainSummary summary = resume(config(
      cat(kTrainerAdam, " num_steps: 6 "), "bad",
      {"data_config.num_workers=2", "data_config.max_bad_rows=3", "train_config.eval_steps=3",
       "train_config.early_stopping={patience: 9}", "train_config.num_threads=2",
       "train_config.use_tensorboard=false", "train_config.keep_checkpoint_max=1",
       "train_config.keep_delta_max=7", "train_config.log_step_count_steps=1",
       "model_config.metrics=[{auc{}}, {log_loss{}}]"}));
  EXPECT_EQ(summary.steps, 6);
}

TEST_F(TrainerTest, DamagedCheckpointsAreNotTakenForANewModelDir) {
  const PipelineConfig settings = config(cat(kTrainerAdam, " num_epochs: 1 "));
  run(settings, {.max_steps = 2});
  std::ofstream(checkpoint_path(model(), 2) + "/manifest.json") << "{";
  EXPECT_THAT([&] { run(settings); }, ThrowsMessage<Error>(HasSubstr("model.ckpt-2 exists")));
  EXPECT_THAT([&] { resume(settings); },
              ThrowsMessage<Error>(HasSubstr("no checkpoint in " + folder_.path("model"))));
}

TEST_F(TrainerTest, InputPathsAreStoredIndependentlyOfTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  run(config(cat(kTrainerAdam, " num_epochs: 1 "), "good",
             {"train_input_path='train.csv'", "eval_input_path='./good.csv, g*.csv'"}),
      {.max_steps = 2});
  const std::string here = fs::current_path().string();
  fs::current_path(before);
  for (const std::string& path :
       {model("pipeline.config"), model("model.ckpt-2/pipeline.config")}) {
    const PipelineConfig stored = load_pipeline(path);
    EXPECT_EQ(stored.train_input_path(), here + "/train.csv") << path;
    EXPECT_EQ(stored.eval_input_path(), here + "/good.csv," + here + "/g*.csv") << path;
  }
}

// ---- divergence ----

TEST_F(TrainerTest, AnExplodingLossNamesTheRawFeatureThatMayCauseIt) {
  std::string text = "label,x,id\n";
  for (int i = 0; i < kTrainerRows; ++i)
    text += cat(i % 2, ",", i % 5 * 1000000, ",", i % 10, "\n");
  folder_.write("train.csv", text);
  testing::internal::CaptureStderr();
  run(config(" num_epochs: 1 dense_optimizer { sgd_optimizer { lr: 0.1 } } "
             "grad_clipping { clipping_type: 'norm' max_gradient: 1 } "),
      {.max_steps = 5});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, ContainsRegex("warning: the loss is [^\n]* at step [^\n]*largest mean magnitude "
                                 "are x \\([^\n]*give them a normalizer"));
  EXPECT_EQ(log.find("warning: the loss"), log.rfind("warning: the loss")) << "once";

  EXPECT_THAT(
      [&] {
        run(config(" num_epochs: 5 dense_optimizer { sgd_optimizer { lr: 1e30 momentum: 0 } } ",
                   "good", {"model_dir=" + folder_.path("diverged")}));
      },
      ThrowsMessage<Error>(AllOf(ContainsRegex("the loss is -?(nan|inf) at step"),
                                 HasSubstr("largest mean magnitude are x ("),
                                 HasSubstr("give them a normalizer"))));
}

// ---- interruption ----

TEST_F(TrainerTest, AnInterruptionBeforeTheFirstStepLeavesNoCheckpoint) {
  const TrainSummary summary = run(config(cat(kTrainerAdam, " num_epochs: 1 ")),
                                   {.cancel = CancelToken([] { return true; })});
  EXPECT_EQ(summary.outcome, TrainOutcome::kInterrupted);
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(summary.checkpoint, "");
  EXPECT_THAT(checkpoints(), IsEmpty());
}

}  // namespace
}  // namespace emblem
