// Whole runs with parts of the dense optimizer, averages, accumulated gradients and limits: what
// they learn, save and restore.
#include <gmock/gmock.h>

#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/results.h"
#include "checkpoint/safetensors.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "model/check/check.h"
#include "train/predict/feature_importance.h"
#include "train/report/run_report.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr const char* kAdam = " adam_optimizer { lr: 0.01 } ";
constexpr const char* kSgd = " sgd_optimizer { lr: 0.1 momentum: 0 } ";

class OptimizersTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string text = "label,x,id\n";
    for (int i = 0; i < 400; ++i) {
      const int id = i * 7 % 10;
      text += cat(id < 5 ? 1 : 0, ",", i % 3, ",", id, "\n");
    }
    folder_.write("train.csv", text);
  }

  // `dense` is dense_optimizer, `train` more of train_config, `model` the folder.
  PipelineConfig config(const std::string& dense, const std::string& train = "",
                        const std::string& model = "model",
                        const std::vector<std::string>& changes = {}) const {
    const PipelineConfig config =
        parse_pipeline(cat("train_input_path: '", folder_.path("train.csv"), "' eval_input_path: '",
                           folder_.path("train.csv"), "' model_dir: '", folder_.path(model), R"('
        train_config {
          sparse_optimizer { sgd_optimizer { lr: 0.5 } }
          save_checkpoints_steps: 0 num_epochs: 1 log_step_count_steps: 1
          dense_optimizer { )",
                           dense, " } ", train, R"( }
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

  TrainSummary run(const PipelineConfig& config, int64_t steps) const {
    return train({}, config, {.max_steps = steps});
  }

  std::map<std::string, std::vector<float>> tensors(int64_t step,
                                                    const std::string& model = "model") const {
    const SafetensorsFile file(checkpoint_path(folder_.path(model), step) + "/dense.safetensors");
    std::map<std::string, std::vector<float>> values;
    for (const TensorRef& tensor : file.tensors()) {
      std::vector<float>& to = values[tensor.name];
      to.resize(static_cast<size_t>(tensor.elements()));
      file.read<float>(tensor.name, to);
    }
    return values;
  }
  std::string bytes(int64_t step, const std::string& model) const {
    const std::string checkpoint = checkpoint_path(folder_.path(model), step);
    return read_text_file(checkpoint + "/dense.safetensors") +
           read_text_file(checkpoint + "/tables/id_emb/emb_vector");
  }

  void expect_exact_resume(const std::string& dense, const std::string& train = "") {
    run(config(dense, train, "whole"), 11);
    run(config(dense, train, "parts"), 4);
    emblem::train({}, config(dense, train, "parts"),
                  {.model_dir = ModelDir::kResume, .max_steps = 11});
    EXPECT_EQ(bytes(11, "whole"), bytes(11, "parts"));
  }

  const TempFolder folder_;
};

TEST_F(OptimizersTest, ARunWithAnAverageResumesExactly) {
  expect_exact_resume(cat(kAdam, " ema { decay: 0.9 }"));
}

TEST_F(OptimizersTest, ARunWithPartsResumesExactly) {
  expect_exact_resume(cat(kAdam,
                          " part_optimizers { regex_pattern: '.*bias' rmsprop_optimizer {} "
                          "exponential_decay_learning_rate { decay_size: 2 } } "
                          "part_optimizers { regex_pattern: '.*0.weight' adagrad_optimizer {} }"));
}

TEST_F(OptimizersTest, ARunThatAccumulatesGradientsResumesExactlyBetweenUpdates) {
  expect_exact_resume(cat(kAdam, " ema {}"), "gradient_accumulation_steps: 3");
}

TEST_F(OptimizersTest, EveryDenseOptimizerResumesExactly) {
  for (const char* optimizer :
       {"adadelta_optimizer { lr: 1 }", "rmsprop_optimizer {}", "adam_optimizer { amsgrad: true }",
        "adamw_optimizer { amsgrad: true weight_decay: 0.1 }"}) {
    SCOPED_TRACE(optimizer);
    std::filesystem::remove_all(folder_.path("whole"));
    std::filesystem::remove_all(folder_.path("parts"));
    expect_exact_resume(optimizer);
  }
}

TEST_F(OptimizersTest, GradientsAreSummedOverBatches) {
  // Rows that never change, and one batch again and again.
  const std::vector<std::string> frozen = {"train_config.sparse_optimizer.sgd_optimizer.lr=0",
                                           "data_config.batch_size=400",
                                           "train_config.num_epochs=4"};
  run(config(" sgd_optimizer { lr: 0.2 momentum: 0 } ", "", "once", frozen), 1);
  run(config(kSgd, "gradient_accumulation_steps: 2", "twice", frozen), 2);
  run(config(kSgd, "gradient_accumulation_steps: 2", "first", frozen), 1);
  const auto once = tensors(1, "once"), twice = tensors(2, "twice"), first = tensors(1, "first");
  bool changed = false;
  for (const auto& [name, values] : once) {
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(twice.at(name)[i], values[i], 1e-6) << name;
      changed = changed || first.at(name)[i] != values[i];
    }
  }
  EXPECT_TRUE(changed) << "nothing is updated before the second batch";
  EXPECT_THAT(first, Contains(testing::Key(HasSubstr("optimizer.accumulated."))));
  EXPECT_THAT(twice, Not(Contains(testing::Key(HasSubstr("optimizer.accumulated.")))));
}

TEST_F(OptimizersTest, PartsHaveAnOptimizerOfTheirOwn) {
  run(config(cat(kAdam, " part_optimizers { regex_pattern: '.*bias' sgd_optimizer { lr: 0 } }"), "",
             "frozen"),
      5);
  run(config(" sgd_optimizer { lr: 0 } ", "", "initial"), 1);
  const auto frozen = tensors(5, "frozen"), initial = tensors(1, "initial");
  for (const auto& [name, values] : initial) {
    if (name.starts_with("optimizer.")) continue;
    EXPECT_EQ(frozen.at(name) == values, name.ends_with("bias")) << name;
  }
  EXPECT_THAT(
      [&] {
        run(config(cat(kAdam,
                       " part_optimizers { regex_pattern: 'bais' "
                       "sgd_optimizer {} }")),
            1);
      },
      ThrowsMessage<Error>(HasSubstr("regex_pattern \"bais\" matches no parameter")));
}

TEST_F(OptimizersTest, EvaluationsReadTheAverageUnlessToldOtherwise) {
  // With decay 1 the average stays at the weights of the first step.
  const std::vector<std::string> frozen = {"train_config.sparse_optimizer.sgd_optimizer.lr=0"};
  const auto with = [&](const std::string& dense, const std::string& folder,
                        std::vector<std::string> more = {}) {
    more.insert(more.end(), frozen.begin(), frozen.end());
    return config(cat(kSgd, dense), "", folder, more);
  };
  const auto first = run(with("", "first"), 1).evaluation->metrics;
  const auto last = run(with("", "last"), 10).evaluation->metrics;
  const auto average = run(with("ema { decay: 1 }", "average"), 10).evaluation->metrics;
  const auto trained =
      run(with("ema { decay: 1 }", "trained", {"eval_config.use_dense_ema=false"}), 10)
          .evaluation->metrics;
  EXPECT_NE(first, last);
  EXPECT_EQ(average, first);
  EXPECT_EQ(trained, last);
  const Context context;
  EXPECT_EQ(RestoredModel(context, folder_.path("average"), "", {}).evaluate("").metrics, first);
  const std::vector<std::string> off = {"eval_config.use_dense_ema=false"};
  EXPECT_EQ(RestoredModel(context, folder_.path("average"), "", off).evaluate("").metrics, last);
  EXPECT_THAT([&] { run(with("", "none", {"eval_config.use_dense_ema=true"}), 1); },
              ThrowsMessage<Error>(HasSubstr("there is no train_config.dense_optimizer.ema")));
}

TEST_F(OptimizersTest, GradientsOfLookupsAreClipped) {
  const std::vector<std::string> clipped = {
      "train_config.sparse_optimizer.sgd_optimizer.gradient_clipping=true",
      "train_config.sparse_optimizer.sgd_optimizer.max_gradient=1e-9"};
  run(config(kSgd, "", "free"), 3);
  run(config(kSgd, "", "clipped", clipped), 3);
  run(config(kSgd, "", "frozen", {"train_config.sparse_optimizer.sgd_optimizer.lr=0"}), 3);
  const auto rows = [&](const std::string& model) {
    const std::string path = checkpoint_path(folder_.path(model), 3) + "/tables/id_emb/emb_vector";
    const std::string text = read_text_file(path);
    std::vector<float> values(text.size() / sizeof(float));
    std::memcpy(values.data(), text.data(), values.size() * sizeof(float));
    return values;
  };
  const auto free = rows("free"), clip = rows("clipped"), frozen = rows("frozen");
  float moved = 0, moved_clipped = 0;
  for (size_t i = 0; i < free.size(); ++i) {
    moved = std::max(moved, std::abs(free[i] - frozen[i]));
    moved_clipped = std::max(moved_clipped, std::abs(clip[i] - frozen[i]));
  }
  EXPECT_GT(moved, 1e-4f);
  EXPECT_LT(moved_clipped, 1e-7f);
}

TEST_F(OptimizersTest, TrainMetricsAreLoggedOnceTheyHaveAValue) {
  run(config(kAdam, "", "model",
             {"model_config.train_metrics=[{auc {} decay_step: 4}, {accuracy {} decay_step: 2}]"}),
      6);
  const auto lines = read_results(folder_.path("model/train_log.jsonl"));
  ASSERT_EQ(lines.size(), 6u);
  const auto has = [&](size_t line, const char* name) { return lines[line].values.contains(name); };
  EXPECT_FALSE(has(0, "train_metric/accuracy"));
  EXPECT_TRUE(has(1, "train_metric/accuracy"));
  EXPECT_FALSE(has(2, "train_metric/auc"));
  EXPECT_TRUE(has(3, "train_metric/auc"));
  EXPECT_LE(lines[3].values.at("train_metric/auc"), 1.0);
}

TEST_F(OptimizersTest, VariationalDropoutRanksTheFeaturesOfAGroup) {
  run(config(kAdam, "", "model", {"model_config.variational_dropout.regularization_lambda=0.1"}),
      10);
  const Context context;
  RestoredModel restored(context, folder_.path("model"), "", {});
  const auto found =
      feature_importance(context, restored.config().model_config(), restored.model().graph());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[0].feature, found[1].feature);
  EXPECT_LE(found[0].drop, found[1].drop);
  const auto lines = to_lines(found);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("group deep, p by feature: "), HasSubstr("id 0.")));
}

TEST_F(OptimizersTest, AFineTuneCheckpointIsWhereARunBegins) {
  run(config(kAdam, "", "first"), 8);
  const auto before = tensors(8, "first");
  run(config(" sgd_optimizer { lr: 0 } ",
             cat("fine_tune_checkpoint: '", folder_.path("first"), "'"), "second"),
      1);
  const auto after = tensors(1, "second");
  for (const auto& [name, values] : before) {
    if (name.starts_with("optimizer.")) continue;
    EXPECT_EQ(after.at(name), values) << name;
  }
}

}  // namespace
}  // namespace emblem
