// Learning, and moving what was learned, on every device, with the CPU as the oracle.
#include "train/learner/learner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "checkpoint/safetensors.h"
#include "core/device/device_test.h"
#include "core/files/temp_folder_test.h"
#include "train/learner/small_learner_test.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

using testing::DoubleNear;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step)
    EXPECT_NEAR(actual[step], expected[step], 1e-4 * expected[step]) << "step " << step;
}

double mean_of(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

class LearnerTest : public testing::TestWithParam<std::tuple<ModelCase, Device>> {
 protected:
  void SetUp() override {
    context_.device = std::get<1>(GetParam());
    context_.threads = &pool_;
    if (!device_is_usable(context_.device)) GTEST_SKIP() << "no CUDA device here";
    stream_ = use_own_stream(context_);
  }
  const ModelCase& model() { return std::get<0>(GetParam()); }

  ThreadPool pool_{2};
  Context context_;
  std::shared_ptr<cuda::Stream> stream_;
};

// Rounding grows from step to step: the first steps of AdaGrad and Adam go by a gradient's sign.
TEST_P(LearnerTest, TheLossesAgreeWithTheCpu) {
  Training here({}, pipeline(model())), there(context_, pipeline(model()));
  expect_close(there.losses(8), here.losses(8));
  EXPECT_THAT(there.logits(999), Pointwise(FloatNear(2e-2f), here.logits(999)));
  const auto expected = here.losses(42);
  EXPECT_NEAR(mean_of(there.losses(42)), mean_of(expected), 5e-3 * mean_of(expected));
  EXPECT_LT(expected[39], 0.9 * expected[0]) << "nothing was learned";
}

// Files do not depend on the layout of parameters in memory.
void expect_a_state_for_each_parameter(Learner& learner, const std::string& path) {
  int64_t parameters = 0;
  for (const Parameter& of : learner.model().graph().parameter_list())
    parameters += of.rows * of.cols;
  const SafetensorsFile file(path);
  EXPECT_EQ(file.find("optimizer.state").shape.back(), parameters);
}

TEST_P(LearnerTest, CheckpointsMoveBetweenCpuAndDeviceBothWays) {
  const config::PipelineConfig config = pipeline(model());
  Context cpu;
  for (const auto& [from, to] : {std::pair(cpu, context_), std::pair(context_, cpu)}) {
    const TempFolder folder;
    Training first(from, config), second(to, config);
    first.losses(6);
    const std::string path = save_run(folder.path("model"), first.learner, {}, config);
    expect_a_state_for_each_parameter(first.learner, path + "/dense.safetensors");
    load_run(path, second.learner);
    EXPECT_EQ(second.learner.steps(), 6);
    EXPECT_THAT(second.logits(999), Pointwise(FloatNear(1e-5f), first.logits(999)));
    expect_close(second.losses(4), first.losses(4));
  }
}

INSTANTIATE_TEST_SUITE_P(, LearnerTest,
                         testing::Combine(testing::ValuesIn(model_cases()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

class LearnerOptionsTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(LearnerOptionsTest);

TEST_P(LearnerOptionsTest, ClippingAndRegularizationAgreeWithTheCpu) {
  const ModelCase dlrm = model_cases().back();
  for (
      const char* extra :
      {R"(grad_clipping { clipping_type: "norm" max_gradient: 0.05 enable_global_grad_clip: true })",
       R"(grad_clipping { clipping_type: "norm" max_gradient: 0.05 })",
       R"(grad_clipping { clipping_type: "value" max_gradient: 0.002 })",
       "regularization { weight_l2: 0.01 embedding_l2: 0.001 }"}) {
    Training here({}, pipeline(dlrm, extra)), there(context_, pipeline(dlrm, extra));
    const auto expected = here.losses(12);
    EXPECT_NE(Training({}, pipeline(dlrm)).losses(12).back(), expected.back())
        << "no effect: " << extra;
    SCOPED_TRACE(extra);
    expect_close(there.losses(12), expected);
  }
}

TEST_P(LearnerOptionsTest, EveryDenseOptimizerAgreesWithTheCpu) {
  const ModelCase dlrm = model_cases().back();
  for (const char* optimizer :
       {"sgd_optimizer { lr: 0.1 momentum: 0 weight_decay: 0.01 }",
        "sgd_optimizer { lr: 0.1 momentum: 0.9 }", "adagrad_optimizer { lr: 0.05 }",
        "adam_optimizer { lr: 0.01 }", "adamw_optimizer { lr: 0.01 weight_decay: 0.1 }"}) {
    config::PipelineConfig config = pipeline(dlrm);
    const config::PipelineConfig other = parse_pipeline(
        cat("train_config { sparse_optimizer { sgd_optimizer { lr: 0.1 } } dense_optimizer { ",
            optimizer, " } }"),
        "test");
    *config.mutable_train_config()->mutable_dense_optimizer() =
        other.train_config().dense_optimizer();
    Training here({}, config), there(context_, config);
    SCOPED_TRACE(optimizer);
    const auto expected = here.losses(12);
    expect_close(there.losses(12), expected);
  }
}

TEST_P(LearnerOptionsTest, SixteenBitsLearnAsFastAsThirtyTwo) {
  for (const ModelCase& model : model_cases()) {
    for (const char* precision : {"BF16", "FP16"}) {
      SCOPED_TRACE(cat(model.name, " ", precision));
      Training here({}, pipeline(model)),
          there(context_, pipeline(model, cat("mixed_precision: \"", precision, "\"")));
      const auto expected = here.losses(50), actual = there.losses(50);
      // A CPU computes FP16 models in fp32.
      const bool is_fp32 = context_.device == Device::kCpu && std::string(precision) == "FP16";
      const double tolerance = is_fp32 ? 0.0 : 0.05;
      EXPECT_NEAR(mean_of(actual), mean_of(expected), tolerance * mean_of(expected));
    }
  }
}

// Few keys, so that rows get many gradients in a batch.
TEST_P(LearnerOptionsTest, DeterministicRunsGiveTheSameBytes) {
  const auto config = pipeline(model_cases().back(),
                               R"(deterministic: true
         grad_clipping { clipping_type: "norm" max_gradient: 0.05 enable_global_grad_clip: true })");
  std::vector<std::vector<double>> losses;
  std::vector<std::vector<float>> parameters, rows;
  for (int run = 0; run < 2; ++run) {
    Training training(context_, config);
    losses.push_back(training.losses(12));
    Model& model = training.learner.model();
    parameters.push_back(to_host(context_, model.graph().parameters()));
    rows.emplace_back();
    for (const Table* table : model.tables()) {
      table->export_rows(context_, 100, [&](const RowBatch& batch) {
        rows.back().insert(rows.back().end(), batch.weights.begin(), batch.weights.end());
        rows.back().insert(rows.back().end(), batch.states.begin(), batch.states.end());
      });
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(parameters[0], parameters[1]);
  EXPECT_EQ(rows[0], rows[1]);
}

// The last three features read dynamic tables without admission.
TEST_P(LearnerOptionsTest, TheModelCountsValuesWithoutARow) {
  Training run(context_, pipeline(model_cases().front()));
  Model& model = run.learner.model();
  const Batch batch = batch_of(0, 100);
  const auto counts_of = [&](Phase phase) {
    model.forward(context_, run.feed.set(batch), phase, 0);
    std::map<std::string, LookupCounts> found;
    for (const FeatureLookups& of : model.take_lookup_counts(context_)) {
      EXPECT_TRUE(found.emplace(of.feature, of.counts).second) << of.feature;
      EXPECT_EQ(of.table, of.feature + "_emb_wide");
    }
    return found;
  };
  const auto before = counts_of(Phase::kEval);
  for (const char* name : {"C1", "C2", "C3"}) EXPECT_EQ(before.at(name), (LookupCounts{100, 0}));
  for (const char* name : {"C4", "C5"}) EXPECT_EQ(before.at(name), (LookupCounts{100, 100}));
  EXPECT_EQ(before.at("C6").missing, before.at("C6").values);
  const auto training = counts_of(Phase::kTrain), after = counts_of(Phase::kEval);
  for (const auto& [feature, counts] : before) {
    EXPECT_EQ(training.at(feature), (LookupCounts{counts.values, 0})) << feature;
    EXPECT_EQ(after.at(feature), (LookupCounts{counts.values, 0})) << feature;
  }
}

TEST(LearnerInFp16, SkipsStepsThatOverflowUntilTheScaleFits) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  const Context cuda{.device = Device::kCuda};
  Training run(cuda, pipeline(model_cases().back(),
                              "mixed_precision: \"FP16\" grad_scaler { init_scale: 1e9 }"));
  Graph& graph = run.learner.model().graph();
  const auto before = to_host(cuda, graph.parameters());
  const Batch batch = batch_of(0, 200);
  EXPECT_TRUE(run.learner.step(run.feed.set(batch), 0).skipped);
  EXPECT_EQ(to_host(cuda, graph.parameters()), before);
  int skipped = 1;
  while (skipped < 40 && run.learner.step(run.feed.set(batch), 0).skipped) ++skipped;
  EXPECT_LT(skipped, 30);
  EXPECT_NE(to_host(cuda, graph.parameters()), before);
}

TEST(RunState, TheLossScaleAndItsGoodStepsAreRestored) {
  const config::PipelineConfig config = pipeline(model_cases().back());
  const TempFolder folder;
  Training first({}, config), second({}, config), third({}, config);
  first.learner.loss_scaler().restore(LossScaleState{.scale = 512.0, .good_steps = 1999});
  load_run(save_run(folder.path("model"), first.learner, {}, config), second.learner);
  EXPECT_EQ(second.learner.loss_scaler().state(),
            (LossScaleState{.scale = 512.0, .good_steps = 1999}));
  EXPECT_EQ(third.learner.loss_scaler().state(), std::nullopt) << "never in fp16";
}

TEST(RunState, AnEvaluationChangesTheManifestOfACheckpointAlone) {
  const config::PipelineConfig config = pipeline(model_cases().back());
  const TempFolder folder;
  Training run({}, config);
  run.losses(2);
  RunState state{.evaluation_due = true, .only_best = true};
  const std::string path = save_run(folder.path("model"), run.learner, state, config);
  EXPECT_TRUE(load_run(path, run.learner).evaluation_due);
  state.evaluation_due = state.only_best = false;
  state.metrics = {{"auc", 0.75}};
  state.early_stopping = {.metric = "auc", .has_best = true, .best = 0.75, .best_step = 2};
  update_run(path, run.learner, state);
  const RunState read = load_run(path, run.learner);
  EXPECT_FALSE(read.evaluation_due);
  EXPECT_FALSE(read.only_best);
  EXPECT_EQ(read.metrics.at("auc"), 0.75);
  EXPECT_EQ(read.early_stopping.best_step, 2);
}

TEST_P(LearnerOptionsTest, ALossThatIsNotANumberStopsBeforeAnythingIsUpdated) {
  Training run(context_, pipeline(model_cases().back()));
  run.losses(2);
  const auto parameters = to_host(context_, run.learner.model().graph().parameters());
  for (const float sign : {1.0f, -1.0f}) {
    Batch batch = batch_of(5, 50);
    batch.dense[3] = std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
    EXPECT_THAT([&] { run.learner.step(run.feed.set(batch), 0); },
                ThrowsMessage<Error>(HasSubstr("the loss is nan at step 3")));
  }
  EXPECT_EQ(to_host(context_, run.learner.model().graph().parameters()), parameters);
}

}  // namespace
}  // namespace emblem
