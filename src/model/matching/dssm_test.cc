#include <gmock/gmock.h>

#include <cmath>

#include "config/feature/items.h"
#include "core/text/text.h"
#include "loss/candidate_rank.h"
#include "model/small_model_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// `sampler`: what data_config has besides; `settings`: of the model.
std::string matching_pipeline(const std::string& sampler, const std::string& settings,
                              const std::string& model = "dssm",
                              const std::string& item_table = "") {
  return cat(R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                   dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" )",
             sampler, R"( }
    feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "age" } }
    feature_configs { id_feature { feature_name: "item" num_buckets: 20 embedding_dim: 4 )",
             item_table, R"( } }
    feature_configs { raw_feature { feature_name: "price" value_dim: 2 embedding_dim: 3 mlp {} } }
    model_config {
      feature_groups { group_name: "users" feature_names: "user" feature_names: "age" }
      feature_groups { group_name: "items" feature_names: "item" feature_names: "price" } )",
             model, R"( { user_tower { input: "users" mlp { hidden_units: 6 use_bn: true } }
        item_tower { input: "items" mlp { hidden_units: 6 use_bn: true } } )",
             settings, R"( }
      losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } } })");
}

constexpr const char* kSampler = R"(negative_sampler { input_path: "items.txt" num_sample: 5
    attr_fields: "item" attr_fields: "price" item_id_field: "item" })";

constexpr const char* kHardSampler = R"(hard_negative_sampler { item_input_path: "items.txt"
    user_input_path: "users.txt" hard_neg_edge_input_path: "hard.txt" num_sample: 3
    num_hard_sample: 2 attr_fields: "item" attr_fields: "price" item_id_field: "item"
    user_id_field: "user" })";

// What the model says of each row, from the vectors of its towers.
void expect_ranks_of_vectors(SmallModel& model, const Batch& batch, float temperature,
                             bool are_all_candidates, bool masks_equal_items = false) {
  model.forward(batch);
  ASSERT_EQ(model.model->heads().size(), 3u);
  const std::vector<float> ranks = model.logits(0), users = model.logits(1),
                           items = model.logits(2);
  const int64_t cols = std::ssize(users) / batch.rows, there = std::ssize(items) / cols;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto score = [&](int64_t item) {
      double sum = 0.0;
      for (int64_t j = 0; j < cols; ++j)
        sum += static_cast<double>(users[row * cols + j]) * items[item * cols + j];
      return sum / temperature;
    };
    const auto log_q = [&](int64_t item) {
      return model.layout.candidates.have_frequency ? batch.candidate_logs[item] : 0.0f;
    };
    const auto& keys = batch.sparse[1].keys;  // of items
    const auto competes = [&](int64_t item) {
      if (item == row) return true;
      if (!are_all_candidates && item < batch.rows) return false;
      if (masks_equal_items && keys[item] == keys[row]) return false;
      return !model.layout.candidates.are_of_single_rows || batch.candidate_of[item] < 0 ||
             batch.candidate_of[item] == row;
    };
    double sum = 0.0, better = 0.0;
    for (int64_t item = 0; item < there; ++item) {
      if (!competes(item)) continue;
      sum += std::exp(score(item) - log_q(item) - (score(row) - log_q(row)));
      better += score(item) > score(row) + 1e-5 ? 1.0 : 0.0;
    }
    EXPECT_NEAR(ranks[row * kRankColumns], std::log(sum), 1e-4 * (1.0 + std::log(sum)));
    EXPECT_EQ(ranks[row * kRankColumns + 1], better) << row;
  }
}

TEST(Dssm, RanksTheItemsOfTheBatchByTheVectorsOfItsTowers) {
  SmallModel model(matching_pipeline("", "output_dim: 3 temperature: 0.3 in_batch_negative: true"));
  const Batch batch = model.batch({.rows = 12});
  expect_ranks_of_vectors(model, batch, 0.3f, true);
  EXPECT_THAT(model.model->loss_names(), ElementsAre("softmax_cross_entropy"));
}

TEST(Dssm, CosinesAreProductsOfVectorsOfLengthOne) {
  SmallModel model(
      matching_pipeline("", "similarity: COSINE temperature: 0.1 in_batch_negative: true"));
  const Batch batch = model.batch({.rows = 9});
  expect_ranks_of_vectors(model, batch, 0.1f, true);
  for (const size_t head : {1, 2}) {
    const std::vector<float> vectors = model.logits(head);
    for (int64_t row = 0; row < batch.rows; ++row) {
      double square = 0.0;
      for (int64_t j = 0; j < 6; ++j) square += vectors[row * 6 + j] * vectors[row * 6 + j];
      EXPECT_NEAR(square, 1.0, 1e-5);
    }
  }
}

TEST(Dssm, LearnsAgainstSampledItems) {
  for (const char* name : {"dssm", "dssm_v2"}) {
    for (const bool in_batch : {false, true}) {
      SmallModel model(matching_pipeline(
          kSampler, cat("output_dim: 4 in_batch_negative: ", in_batch ? "true" : "false"), name));
      const Batch batch = model.batch({.rows = 16});
      EXPECT_EQ(batch.sequences.at(0).elements(), 16 + 5);
      expect_ranks_of_vectors(model, batch, 1.0f, in_batch);
      const double first = model.step(batch, 0.1f, 1);
      double loss = first;
      for (int step = 2; step <= 60; ++step) loss = model.step(batch, 0.1f, step);
      EXPECT_LT(loss, 0.8 * first) << name;
    }
  }
}

// Of 20 items, batches of 16 rows have equal ones.
TEST(Dssm, MasksEqualItemsAndCorrectsScoresInTheBatchAndAmongSampledItems) {
  for (const char* sampler : {"", kSampler}) {
    for (const char* corrections :
         {"mask_equal_items: true", "logq_correction { input_path: 'often.txt' }",
          "mask_equal_items: true logq_correction { input_path: 'often.txt' }"}) {
      SmallModel model(matching_pipeline(
          sampler,
          cat("output_dim: 4 in_batch_negative: true item_id_feature: 'item' ", corrections)));
      const Batch batch = model.batch({.rows = 16});
      const bool masks = std::string(corrections).starts_with("mask");
      expect_ranks_of_vectors(model, batch, 1.0f, true, masks);
      const double first = model.step(batch, 0.1f, 1);
      double loss = first;
      for (int step = 2; step <= 60; ++step) loss = model.step(batch, 0.1f, step);
      EXPECT_LT(loss, 0.8 * first) << corrections;
    }
  }
}

TEST(Dssm, LearnsAgainstHardNegativesOfItsRows) {
  for (const bool in_batch : {false, true}) {
    SmallModel model(matching_pipeline(
        kHardSampler, cat("output_dim: 4 mask_equal_items: true in_batch_negative: ",
                          in_batch ? "true" : "false")));
    const Batch batch = model.batch({.rows = 16});
    ASSERT_EQ(batch.candidate_of.back(), 15);
    expect_ranks_of_vectors(model, batch, 1.0f, in_batch, true);
    const double first = model.step(batch, 0.1f, 1);
    double loss = first;
    for (int step = 2; step <= 60; ++step) loss = model.step(batch, 0.1f, step);
    EXPECT_LT(loss, 0.8 * first);
  }
}

TEST(Dssm, OfVersion2SharesTables) {
  const std::string shared = R"(embedding_name: "user_emb")";
  for (const char* sampler : {"", kSampler}) {
    SmallModel model(
        matching_pipeline(sampler, "output_dim: 4 in_batch_negative: true", "dssm_v2", shared));
    EXPECT_EQ(model.model->tables().size(), 1u);
    const Batch batch = model.batch({.rows = 16});
    const double first = model.step(batch, 0.1f, 1);
    double loss = first;
    for (int step = 2; step <= 60; ++step) loss = model.step(batch, 0.1f, step);
    EXPECT_LT(loss, 0.9 * first);
  }
  EXPECT_THAT(
      [&] {
        SmallModel(matching_pipeline("", "output_dim: 4 in_batch_negative: true", "dssm", shared));
      },
      ThrowsMessage<Error>(HasSubstr("both towers of dssm read table \"user_emb\", but they share "
                                     "no tables; use dssm_v2")));
}

TEST(Dssm, GivesOutTheVectorsOfItsTowers) {
  SmallModel model(matching_pipeline("", "output_dim: 3 in_batch_negative: true"));
  std::vector<std::string> names;
  for (const OutputSpec& output : default_outputs(heads_of(model.config, model.layout))) {
    names.push_back(output.name);
    EXPECT_EQ(output.cols, 3);
  }
  EXPECT_THAT(names, ElementsAre("user_tower_emb", "item_tower_emb"));
}

TEST(Dssm, SettingsThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& settings, const std::string& sampler = "") {
    return [=] { SmallModel(matching_pipeline(sampler, settings)); };
  };
  const std::string in_batch = "in_batch_negative: true ";
  EXPECT_THAT(refused(""), ThrowsMessage<Error>(HasSubstr("dssm has no negatives to learn from")));
  EXPECT_THAT(refused(in_batch + "similarity: EUCLID"),
              ThrowsMessage<Error>(HasSubstr("expected COSINE or INNER_PRODUCT")));
  EXPECT_THAT(refused(in_batch + "temperature: 0"),
              ThrowsMessage<Error>(HasSubstr("temperature is 0, expected more than 0")));
  EXPECT_THAT(refused(in_batch + "output_dim: -1"),
              ThrowsMessage<Error>(HasSubstr("output_dim is -1")));
  EXPECT_THAT(
      refused(in_batch + "} ensemble_size: 2 num_class: 1 metrics { recall_at_k {} "),
      ThrowsMessage<Error>(HasSubstr("ensemble_size is 2, but dssm does not support ensembles")));
  EXPECT_THAT(refused(in_batch + "} metrics { auc {} "),
              ThrowsMessage<Error>(HasSubstr("auc is of predictions, but this model ranks")));
  EXPECT_THAT(refused(in_batch + "} losses { l2_loss {} "),
              ThrowsMessage<Error>(HasSubstr("must be one softmax_cross_entropy {}")));
  EXPECT_THAT(refused(in_batch + "mask_equal_items: true"),
              ThrowsMessage<Error>(HasSubstr("dssm has no item_id_feature, which mask_equal_items "
                                             "needs without a sampler")));
  EXPECT_THAT(refused(in_batch + "mask_equal_items: true item_id_feature: 'price'"),
              ThrowsMessage<Error>(HasSubstr("dssm.item_id_feature is \"price\", expected a "
                                             "categorical feature of the item")));
  EXPECT_THAT(refused(in_batch + "mask_equal_items: true item_id_feature: 'itme'"),
              ThrowsMessage<Error>(HasSubstr("did you mean \"item\"")));
  EXPECT_THAT(refused("mask_equal_items: true item_id_feature: 'user'", kSampler),
              ThrowsMessage<Error>(HasSubstr("expected a categorical feature of the item")));
  EXPECT_THAT(refused(in_batch + "item_id_feature: 'item'"),
              ThrowsMessage<Error>(HasSubstr("item_id_feature has no effect without")));
  EXPECT_THAT(refused(in_batch + "logq_correction {} item_id_feature: 'item'"),
              ThrowsMessage<Error>(HasSubstr("dssm.logq_correction has no input_path")));
  EXPECT_THAT(
      refused("logq_correction {}", kHardSampler),
      ThrowsMessage<Error>(HasSubstr("data_config.hard_negative_sampler chooses hard ones")));
  EXPECT_THAT(refused("", R"(negative_sampler { input_path: "items.txt" num_sample: 5
                  attr_fields: "item" item_id_field: "item" })"),
              ThrowsMessage<Error>(HasSubstr("feature \"price\" of the item tower reads a column "
                                             "that is not among")));
}

}  // namespace
}  // namespace emblem
