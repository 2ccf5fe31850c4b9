#include <gmock/gmock.h>

#include <cmath>

#include "core/text/text.h"
#include "loss/candidate_rank.h"
#include "model/small_model_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string dat_pipeline(const std::string& data, const std::string& settings,
                         const std::string& groups = R"(
      feature_groups { group_name: "user_twin" feature_names: "user_twin" }
      feature_groups { group_name: "item_twin" feature_names: "item_twin" } )") {
  return cat(R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                   dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" )",
             data, R"( }
    feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "user_twin" value_dim: 3 } }
    feature_configs { id_feature { feature_name: "item" num_buckets: 20 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "item_twin" value_dim: 3 } }
    model_config {
      feature_groups { group_name: "users" feature_names: "user" }
      feature_groups { group_name: "items" feature_names: "item" } )",
             groups, R"(
      dat { user_tower { input: "users" augment_input: "user_twin" mlp { hidden_units: 6 } }
        item_tower { input: "items" augment_input: "item_twin" mlp { hidden_units: 6 } } )",
             settings, R"( }
      losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } } })");
}

constexpr const char* kDatSampler = R"(negative_sampler { input_path: "items.txt" num_sample: 5
    attr_fields: "item" attr_fields: "item_twin" item_id_field: "item" })";

// Three numbers of each row or, where there are items, of the row's item.
const float* twin_of(const SmallModel& model, const Batch& batch, const char* name, int64_t row) {
  const FeatureSpec& twin = model.layout.find(name);
  if (twin.sequence < 0)
    return batch.dense.data() + row * model.layout.dense_cols + twin.dense_begin;
  const auto sequence = static_cast<size_t>(twin.sequence);
  return batch.sequences[sequence].numbers.data() +
         row * model.layout.sequences[sequence].dense_cols + twin.dense_begin;
}

double distances(const SmallModel& model, const Batch& batch, const char* name,
                 const std::vector<float>& vectors) {
  double sum = 0.0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const float* twin = twin_of(model, batch, name, row);
    const double norm = std::sqrt(twin[0] * twin[0] + twin[1] * twin[1] + twin[2] * twin[2]);
    for (int64_t j = 0; j < 3; ++j) sum += std::pow(twin[j] / norm - vectors[row * 3 + j], 2);
  }
  return sum;
}

TEST(Dat, AugmentedVectorsMimicTheOtherTower) {
  for (const char* data : {"", kDatSampler}) {
    SmallModel model(dat_pipeline(data,
                                  "output_dim: 3 similarity: COSINE temperature: 0.5 "
                                  "in_batch_negative: true amm_u_weight: 0.25"));
    const Batch batch = model.batch({.rows = 12});
    model.forward(batch, Phase::kTrain, 1);
    EXPECT_THAT(model.model->loss_names(),
                ElementsAre("amm_loss_u", "amm_loss_i", "softmax_cross_entropy"));
    const std::vector<double> losses = model.model->losses(model.context);
    EXPECT_NEAR(losses[0], 0.25 * distances(model, batch, "user_twin", model.logits(2)), 1e-4);
    EXPECT_NEAR(losses[1], 0.5 * distances(model, batch, "item_twin", model.logits(1)), 1e-4);
    model.forward(batch, Phase::kEval);
    const std::vector<double> evaluated = model.model->losses(model.context);
    EXPECT_EQ(evaluated[0], 0.0);
    EXPECT_EQ(evaluated[1], 0.0);
    EXPECT_NEAR(evaluated[2], losses[2], 1e-6);
  }
}

TEST(Dat, LearnsAgainstSampledItems) {
  SmallModel model(dat_pipeline(kDatSampler, "output_dim: 3 amm_i_weight: 0.001 amm_u_weight: 0"));
  const Batch batch = model.batch({.rows = 16});
  const double first = model.step(batch, 0.1f, 1);
  double loss = first;
  for (int step = 2; step <= 100; ++step) loss = model.step(batch, 0.1f, step);
  EXPECT_LT(loss, 0.8 * first);
}

TEST(Dat, SettingsThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { SmallModel{text}; }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const std::string in_batch = "in_batch_negative: true ";
  refused(dat_pipeline("", "output_dim: 3"), "dat has no negatives to learn from");
  refused(dat_pipeline("", in_batch + "output_dim: 4"),
          "feature group \"user_twin\" is 3 wide, but the vectors of dat have 4 columns");
  refused(dat_pipeline("", in_batch + "output_dim: 3 amm_u_weight: -1"),
          "dat.amm_u_weight is -1, expected at least 0");
  refused(dat_pipeline("", in_batch + "output_dim: 3", ""),
          "model_config has no feature group \"user_twin\", which dat needs");
  refused(dat_pipeline("", in_batch + "output_dim: 3", R"(
            feature_groups { group_name: "user_twin" feature_names: "user_twin" }
            feature_groups { group_name: "item_twin" feature_names: "item_twin" feature_names: "user" } )"),
          "both towers of dat read table \"user_emb\"");
  refused(dat_pipeline(R"(negative_sampler { input_path: "items.txt" num_sample: 5
                          attr_fields: "item" item_id_field: "item" })",
                       "output_dim: 3"),
          "feature \"item_twin\" of the item tower reads a column that is not among");
}

}  // namespace
}  // namespace emblem
