// Memory that is not there: a request fails, the predictor answers the next ones.
#include <gtest/gtest.h>

#include "core/memory/failing_new_test.h"
#include "model/predict/plain_predictor.h"
#include "model/predict/predictor.h"
#include "model/small_model_test.h"

namespace emblem {
namespace {

class PredictorMemoryTest : public AllocationTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(PredictorMemoryTest);

constexpr int64_t kMaxRows = 16;

constexpr const char* kPredictorMemoryPipeline = R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" }
    feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 8 } }
    feature_configs { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 8 embedding_name: "i" } }
    feature_configs { sequence_feature {
      sequence_name: "click" sequence_length: 400
      features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 8 embedding_name: "i" } } } }
    model_config {
      feature_groups { group_name: "deep" feature_names: "user" feature_names: "item" }
      feature_groups { group_name: "seq" group_type: SEQUENCE feature_names: "item" feature_names: "click__item" }
      multi_tower_din { towers { input: "deep" mlp { hidden_units: 6 } }
                        din_towers { input: "seq" attn_mlp { hidden_units: 5 } } final { hidden_units: 4 } }
      losses { binary_cross_entropy {} } metrics { auc {} } }
)";

// The model on a device, as it is served.
struct Served {
  config::PipelineConfig config = parse_pipeline(kPredictorMemoryPipeline, "test.config");
  FeatureLayout layout = layout_of(config);
  std::unique_ptr<Predictor> predictor;
  BatchView view;
  Context context;

  explicit Served(const Context& on) : context(on) {
    auto model = std::make_unique<Model>(context, config, layout, kMaxRows);
    dispatch(
        context.device,
        [&] { predictor = std::make_unique<HostPredictor>(std::move(model), kMaxRows); },
        [&] {
          predictor = std::make_unique<cuda::PlainPredictor>(context, std::move(model), kMaxRows);
        });
  }
  std::vector<float> answer(const Batch& batch) {
    std::vector<float> probabilities(static_cast<size_t>(batch.rows));
    predictor->run({}, view.set(batch), probabilities);
    return probabilities;
  }
};

TEST_P(PredictorMemoryTest, ARequestWithoutMemoryIsAnsweredTheNextTime) {
  Served whole(context_);
  const Batch few = random_batch(whole.layout, {.rows = 5, .most_elements = 3}, 1),
              many = random_batch(whole.layout, {.rows = 2 * kMaxRows, .most_elements = 300}, 2);
  const auto of_few = whole.answer(few), of_many = whole.answer(many);
  std::unique_ptr<Served> served;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device),
      [&] {
        served = std::make_unique<Served>(context_);
        for (int request = 0; request < 3; ++request) served->answer(few);
      },
      [&] { return served->answer(many); },
      [&](const std::optional<std::vector<float>>& answer) {
        if (answer) {
          EXPECT_EQ(*answer, of_many);
        }
        EXPECT_EQ(served->answer(few), of_few);
        for (int request = 0; request < 3; ++request) EXPECT_EQ(served->answer(many), of_many);
      });
  EXPECT_GT(allocations, 5);
}

TEST_P(PredictorMemoryTest, AModelWithoutMemoryIsLoadedTheNextTime) {
  Served whole(context_);
  const Batch few = random_batch(whole.layout, {.rows = 5, .most_elements = 3}, 1);
  const auto expected = whole.answer(few);
  const int64_t allocations = fail_each_allocation(
      Failing::kData, [] {}, [&] { return Served(context_).answer(few); },
      [&](const std::optional<std::vector<float>>& answer) {
        if (answer) {
          EXPECT_EQ(*answer, expected);
        }
      });
  EXPECT_GT(allocations, 10);
  EXPECT_EQ(Served(context_).answer(few), expected);
}

TEST_P(PredictorMemoryTest, SmallRequestsAreAnsweredWhileThereIsNoMemoryForLargeOnes) {
  Served served(context_);
  const Batch few = random_batch(served.layout, {.rows = 5, .most_elements = 3}, 1),
              many = random_batch(served.layout, {.rows = 2 * kMaxRows, .most_elements = 300}, 2);
  const auto of_few = served.answer(few);
  for (int time = 0; time < 3; ++time) {
    const AllocationFault full(0, AllocationFault::kAll);
    EXPECT_ANY_THROW(served.answer(many));
    EXPECT_EQ(served.answer(few), of_few);
  }
  EXPECT_EQ(served.answer(many), Served(context_).answer(many));
}

}  // namespace
}  // namespace emblem
