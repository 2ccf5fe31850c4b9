// Predictions of batches larger than what is computed at once, and the outputs of heads.
#include "model/predict/predictor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/layers/outputs.h"
#include "model/small_model_test.h"

namespace emblem {
namespace {

constexpr const char* kPredictorPipeline = R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" label_fields: "buy" }
    feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "price" } }
    feature_configs { sequence_feature {
      sequence_name: "click" sequence_length: 6
      features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 } }
      features { raw_feature { feature_name: "price" } } } }
    model_config {
      feature_groups { group_name: "deep" feature_names: "user" feature_names: "price"
        sequence_groups { group_name: "click" feature_names: "click__item" feature_names: "click__price" }
        sequence_encoders { pooling_encoder { input: "click" } } }
      mmoe { expert_mlp { hidden_units: 5 } num_expert: 2
        task_towers { tower_name: "ctr" label_name: "clk" losses { binary_cross_entropy {} } metrics { auc {} } }
        task_towers { tower_name: "cvr" label_name: "buy" num_class: 2
                      losses { softmax_cross_entropy {} } metrics { auc {} } } } }
)";

TEST(HostPredictor, CutsBatchesIntoPieces) {
  const int64_t piece_rows = HostPredictor::piece_rows();
  SmallModel small(kPredictorPipeline, piece_rows);
  const int64_t rows = 2 * piece_rows + 7;
  const Batch batch = small.batch({.rows = rows, .most_keys = 2});
  // What single rows give.
  std::vector<float> expected_ctr, expected_cvr;
  for (int64_t row = 0; row < rows; ++row) {
    small.forward_rows(batch, row, 1);
    expected_ctr.push_back(probability_of(small.logits(0)[0]));
    const std::vector<float> logits = small.logits(1);
    expected_cvr.push_back(probability_of(logits[1] - logits[0]));
  }
  HostPredictor predictor(std::move(small.model), piece_rows);
  std::vector<HeadSpec> heads;
  for (const Head& head : predictor.model().heads()) heads.push_back(head.spec);
  const std::vector<OutputSpec> specs = default_outputs(heads);
  std::vector<std::vector<float>> values;
  std::vector<PredictedOutput> outputs;
  for (const OutputSpec& spec : specs) values.emplace_back(static_cast<size_t>(rows * spec.cols));
  for (size_t i = 0; i < specs.size(); ++i)
    outputs.push_back({specs[i], {values[i].data(), rows, specs[i].cols}});
  predictor.run({}, small.view.set(batch), outputs);
  for (size_t i = 0; i < specs.size(); ++i) {
    for (int64_t row = 0; row < rows; ++row) {
      const auto r = static_cast<size_t>(row);
      if (specs[i].name == "probs_ctr") {
        EXPECT_NEAR(values[i][r], expected_ctr[r], 1e-6);
      } else if (specs[i].name == "probs1_cvr") {
        EXPECT_NEAR(values[i][r], expected_cvr[r], 1e-6);
      } else if (specs[i].name == "probs_cvr") {
        EXPECT_NEAR(values[i][2 * r + 1], expected_cvr[r], 1e-6);
      }
    }
  }
  EXPECT_EQ(specs.size(), 3u);
}

TEST(ComputeOutput, ReadsTheLogitsOfItsDomain) {
  const std::vector<float> logits = {0, 1, 2, 3, -1, 0, 5, 4};  // 2 rows of 2 domains of 2 classes
  const View<const float> view{logits.data(), 2, 4};
  std::vector<float> out(4);
  using Value = OutputSpec::Value;
  compute_output({.name = "l", .value = Value::kLogits, .cols = 2, .domain = 1}, 2, view,
                 out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 3, 5, 4}));
  compute_output({.name = "p", .value = Value::kProbabilities, .cols = 2, .domain = 1}, 2, view,
                 out.data());
  EXPECT_NEAR(out[0], 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(out[2], 1 / (1 + std::exp(-1.0)), 1e-6);
  compute_output({.name = "p1", .value = Value::kProbability, .cols = 1}, 2, view, out.data());
  EXPECT_NEAR(out[1], 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(ComputeOutput, LargeLogitsGiveFiniteProbabilities) {
  const std::vector<float> logits = {-500, 700};
  std::vector<float> out(2);
  compute_output({.name = "p", .value = OutputSpec::Value::kProbabilities, .cols = 2}, 2,
                 {logits.data(), 1, 2}, out.data());
  EXPECT_EQ(out, (std::vector<float>{0, 1}));
}

}  // namespace
}  // namespace emblem
