#include "bench/train/measure.h"

#include <gtest/gtest.h>

#include "model/small_model_test.h"

namespace emblem {
namespace {

constexpr const char* kMeasurePipeline = R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                   dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" }
    feature_configs { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 } }
    feature_configs { sequence_feature { sequence_name: "click" sequence_length: 6
      features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 } } } }
    model_config {
      feature_groups { group_name: "deep" feature_names: "item"
        sequence_groups { group_name: "click" feature_names: "item" feature_names: "click__item" }
        sequence_encoders { din_encoder { attn_mlp { hidden_units: 16 } } } }
      dnn { deep { hidden_units: 4 } } losses { binary_cross_entropy {} } metrics { auc {} } })";

double value_of(const Named<double>& values, const std::string& name) {
  const double* found = find_named(values, name);
  return found == nullptr ? 0.0 : *found;
}

// Measuring ends with steps of single rows, whose sequences may have any length.
TEST(TrainingResult, CountsTheOperationsOfAllElementsOfTheTimedSteps) {
  const config::PipelineConfig config = parse_pipeline(kMeasurePipeline, "test.config");
  const FeatureLayout layout = layout_of(config);
  Batch batch = random_batch(layout, {.rows = 20, .most_elements = 6, .fewest_elements = 6}, 1);
  std::vector<int32_t> offsets(1, 0);
  for (int32_t row = 0; row < 20; ++row) offsets.push_back(row == 0 ? 0 : offsets.back() + 6);
  SequenceColumn& clicks = batch.sequences[0];
  clicks.offsets.assign(offsets.begin(), offsets.end());
  for (const FeatureSpec& feature : layout.features) {
    if (feature.sequence >= 0)
      batch.sparse[static_cast<size_t>(feature.sparse_index)].keys.resize(19 * 6);
  }

  const Context context;
  Learner learner(context, config, layout, 20);
  const auto input = input_in_memory(context, {batch});
  TrainBenchOptions options;
  options.seconds = 0.0;
  options.steps = 3;
  options.warmup = 1;
  const MeasuredTraining found = measure_training(learner, options, "test", *input);
  const BenchResult result =
      training_result("test", learner, DType::kF32, found,
                      {{"copy_bytes_per_second", 1.0}, {"gemm_flops_per_second", 1.0}}, {});

  const Graph& graph = learner.model().graph();
  const double length = 19.0 * 6 / 20;
  const double forward = 20 * (graph.flops_per_row() +
                               length * graph.flops_per_element(graph.sequences().at(0), length));
  const double step = found.total_seconds / 3;
  EXPECT_NEAR(value_of(result.shares, "step at gemm ceiling") * step, 3 * forward, 1e-6 * forward);
}

}  // namespace
}  // namespace emblem
