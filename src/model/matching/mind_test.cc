// MIND against its formulas for padded tensors, one row and one number at a time.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "config/feature/items.h"
#include "core/text/text.h"
#include "loss/candidate_rank.h"
#include "model/small_model_test.h"
#include "nn/capsules.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kMindLayers = R"(
    user_mlp { hidden_units: 6 hidden_units: 5 } hist_seq_mlp { hidden_units: 7 hidden_units: 4 }
    concat_mlp { hidden_units: 12 hidden_units: 9 bias: false } )";
constexpr const char* kMindCapsules =
    "capsule_config { max_k: 4 max_seq_len: 9 high_dim: 3 num_iters: 3 routing_logits_scale: 2 "
    "squash_pow: 0.4 } ";

struct MindText {
  std::string data, user_tower = cat(kMindLayers, kMindCapsules),
                    settings = "output_dim: 3 temperature: 0.3 simi_pow: 4 in_batch_negative: true",
                    history = "'clicks__item' 'clicks__price'", item_table;

  std::string pipeline() const {
    return cat(R"(
      train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                     dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
      data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" )",
               data, R"( }
      feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
      feature_configs { raw_feature { feature_name: "age" value_dim: 2 } }
      feature_configs { id_feature { feature_name: "item" num_buckets: 20 embedding_dim: 4 } }
      feature_configs { raw_feature { feature_name: "price" value_dim: 2 } }
      feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 20
        features { id_feature { feature_name: "item" num_buckets: 20 embedding_dim: 4 )",
               item_table, R"( } }
        features { raw_feature { feature_name: "price" value_dim: 3 } } } }
      model_config {
        feature_groups { group_name: "user" feature_names: "user" feature_names: "age" }
        feature_groups { group_name: "history" group_type: SEQUENCE )",
               named(history), R"( }
        feature_groups { group_name: "item" feature_names: "item" feature_names: "price" }
        mind { user_tower { input: "user" history_input: "history" )",
               user_tower,
               R"( } item_tower { input: "item" mlp { hidden_units: 8 hidden_units: 9 } } )",
               settings, R"( }
        losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } } })");
  }

 private:
  static std::string named(const std::string& features) {
    std::string text;
    for (const std::string& feature : split(features, ' ')) text += " feature_names: " + feature;
    return text;
  }
};

// The same model of numbers alone, whose inputs are those of the batch.
std::string numbers_pipeline(const std::string& capsules, const std::string& settings) {
  return cat(R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                   dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" }
    feature_configs { raw_feature { feature_name: "age" value_dim: 3 } }
    feature_configs { raw_feature { feature_name: "price" value_dim: 4 } }
    feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 20
      features { raw_feature { feature_name: "price" value_dim: 5 } } } }
    model_config {
      feature_groups { group_name: "user" feature_names: "age" }
      feature_groups { group_name: "history" group_type: SEQUENCE feature_names: "clicks__price" }
      feature_groups { group_name: "item" feature_names: "price" }
      mind { user_tower { input: "user" history_input: "history" )",
             kMindLayers, capsules,
             R"( } item_tower { input: "item" mlp { hidden_units: 8 hidden_units: 9 } } )",
             settings,
             R"( } losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } } })");
}

using PlainVector = std::vector<double>;
using PlainVectors = std::vector<PlainVector>;

double plain_product(const PlainVector& a, const PlainVector& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The trained numbers of a model, and what they make of a row.
class PlainMind {
 public:
  PlainMind(SmallModel& model, const Batch& batch) : model_(model), batch_(batch) {
    const config::MIND& mind = model.config.model_config().mind();
    capsules_ = mind.user_tower().capsule_config();
    simi_pow_ = mind.simi_pow();
    has_output_ = mind.output_dim() > 0;
    is_cosine_ = mind.similarity() == config::COSINE;
  }

  PlainVector item(int64_t row) const {
    const int64_t cols = model_.layout.dense_cols, begin = model_.layout.find("price").dense_begin;
    PlainVector x(4);
    for (int64_t j = 0; j < 4; ++j) x[j] = batch_.dense[row * cols + begin + j];
    x = rectified(layer("item_tower.1", rectified(layer("item_tower.0", x))));
    return with_similarity(has_output_ ? layer("item_tower.output.0", x) : x);
  }

  // max_k of them, and how many count.
  std::pair<PlainVectors, int> interests(int64_t row) const {
    const auto [capsules, count] = routed(row);
    const int64_t cols = model_.layout.dense_cols, begin = model_.layout.find("age").dense_begin;
    PlainVector user(3);
    for (int64_t j = 0; j < 3; ++j) user[j] = batch_.dense[row * cols + begin + j];
    user = layer("user_tower.user.output.0", rectified(layer("user_tower.user.0", user)));
    PlainVectors all;
    for (int k = 0; k < static_cast<int>(capsules_.max_k()); ++k) {
      PlainVector x = user;
      x.insert(x.end(), capsules[k].begin(), capsules[k].end());
      const double mask = k < count ? 1.0 : 0.0;
      for (double& value : x) value *= mask;
      x = rectified(layer("user_tower.interests.0", x));
      x = rectified(layer("user_tower.interests.1", x));
      for (double& value : x) value *= mask;
      all.push_back(with_similarity(has_output_ ? layer("user_tower.output.0", x) : x));
    }
    return {all, count};
  }

  // Interests of the row, weighted by its item.
  PlainVector user(int64_t row) const {
    const auto [all, count] = interests(row);
    const PlainVector own = item(row);
    PlainVector mean(own.size(), 0.0);
    double sum = 0.0;
    for (int k = 0; k < count; ++k) sum += std::exp(simi_pow_ * plain_product(all[k], own));
    for (int k = 0; k < count; ++k)
      for (size_t j = 0; j < mean.size(); ++j)
        mean[j] += std::exp(simi_pow_ * plain_product(all[k], own)) / sum * all[k][j];
    return mean;
  }

 private:
  PlainVector layer(const std::string& name, const PlainVector& x) const {
    PlainVector y;
    for (const Parameter& each : model_.model->graph().parameter_list()) {
      const float* values = model_.model->graph().parameters().data + each.begin;
      if (each.name == name + ".weight") {
        EXPECT_EQ(each.cols, std::ssize(x)) << name;
        y.resize(each.rows, 0.0);
        for (int64_t i = 0; i < each.rows; ++i)
          for (int64_t j = 0; j < each.cols; ++j) y[i] += values[i * each.cols + j] * x[j];
      }
    }
    for (const Parameter& each : model_.model->graph().parameter_list())
      if (each.name == name + ".bias")
        for (size_t i = 0; i < y.size(); ++i)
          y[i] += (model_.model->graph().parameters().data + each.begin)[i];
    EXPECT_FALSE(y.empty()) << "no parameters " << name;
    return y;
  }
  static PlainVector rectified(PlainVector x) {
    for (double& value : x) value = std::max(value, 0.0);
    return x;
  }
  PlainVector with_similarity(PlainVector x) const {
    const double norm = is_cosine_ ? std::max(std::sqrt(plain_product(x, x)), 1e-12) : 1.0;
    for (double& value : x) value /= norm;
    return x;
  }

  std::pair<PlainVectors, int> routed(int64_t row) const {
    const SequenceColumn& clicks = batch_.sequences[0];
    const int32_t length = clicks.offsets[row + 1] - clicks.offsets[row];
    const auto most = static_cast<int>(capsules_.max_k()),
               longest = static_cast<int>(capsules_.max_seq_len());
    const int count =
        capsules_.const_caps_num()
            ? most
            : std::clamp(static_cast<int>(std::ceil(std::log2(std::max(length, 1)))), 1, most);
    PlainVectors low, shares;
    const CapsuleOptions first{.capsules = most, .deviation = capsules_.routing_logits_stddev()};
    for (int32_t t = 0; t < std::min(length, longest); ++t) {
      PlainVector x(5);
      for (int64_t j = 0; j < 5; ++j) x[j] = clicks.numbers[(clicks.offsets[row] + t) * 5 + j];
      x = layer("user_tower.history.output.0", rectified(layer("user_tower.history.0", x)));
      low.push_back(layer("user_tower.capsules.0", x));
      shares.emplace_back();
      for (int k = 0; k < count; ++k) shares.back().push_back(first.first_logit(t, k));
    }
    PlainVectors high;
    for (uint32_t iteration = 0; iteration < capsules_.num_iters(); ++iteration) {
      high.assign(most, PlainVector(capsules_.high_dim(), 0.0));
      for (size_t t = 0; t < low.size(); ++t) {
        double sum = 0.0;
        for (double& share : shares[t])
          sum += share = std::exp(capsules_.routing_logits_scale() * share);
        for (int k = 0; k < count; ++k) {
          shares[t][k] /= sum;
          for (size_t j = 0; j < low[t].size(); ++j) high[k][j] += shares[t][k] * low[t][j];
        }
      }
      for (size_t t = 0; t < low.size(); ++t)
        for (int k = 0; k < count; ++k)
          shares[t][k] += plain_product(high[k], low[t]) /
                          std::max(std::sqrt(plain_product(low[t], low[t])), 1e-12);
    }
    for (PlainVector& v : high) {
      const double square = plain_product(v, v);
      const double factor = std::pow(square / (1 + square), capsules_.squash_pow()) /
                            std::max(std::sqrt(square), 1e-7);
      for (double& value : v) value *= factor;
    }
    return {high, count};
  }

  SmallModel& model_;
  const Batch& batch_;
  config::B2ICapsule capsules_;
  double simi_pow_ = 0.0;
  bool has_output_ = false, is_cosine_ = true;
};

void expect_formulas(const std::string& capsules, const std::string& settings) {
  SmallModel model(
      numbers_pipeline(capsules, settings + " temperature: 0.5 in_batch_negative: true"));
  const Batch batch = model.batch({.rows = 13, .most_elements = 14});
  for (int step = 1; step <= 2; ++step) model.step(batch, 0.1f, step);  // biases are not 0
  model.forward(batch);
  ASSERT_EQ(model.model->heads().size(), 3u);
  const std::vector<float> ranks = model.logits(0), users = model.logits(1),
                           items = model.logits(2);
  const PlainMind plain(model, batch);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto [interests, count] = plain.interests(row);
    const auto dim = static_cast<int64_t>(interests[0].size()), most = std::ssize(interests);
    ASSERT_EQ(std::ssize(users), batch.rows * most * dim);
    for (int64_t k = 0; k < most; ++k)
      for (int64_t j = 0; j < dim; ++j)
        EXPECT_NEAR(users[(row * most + k) * dim + j], k < count ? interests[k][j] : 0.0, 1e-4)
            << "row " << row << ", interest " << k << " of " << count;
    const PlainVector user = plain.user(row), own = plain.item(row);
    double sum = 0.0;
    for (int64_t other = 0; other < batch.rows; ++other)
      sum += std::exp((plain_product(user, plain.item(other)) - plain_product(user, own)) / 0.5);
    EXPECT_NEAR(ranks[row * kRankColumns], std::log(sum), 1e-3) << "row " << row;
    for (int64_t j = 0; j < dim; ++j) EXPECT_NEAR(items[row * dim + j], own[j], 1e-4);
  }
}

TEST(Mind, ComputesItsFormulas) {
  expect_formulas(kMindCapsules, "output_dim: 3 simi_pow: 4");
  expect_formulas(
      "capsule_config { max_k: 5 high_dim: 4 max_seq_len: 6 num_iters: 2 "
      "const_caps_num: true routing_logits_scale: 3 routing_logits_stddev: 0.5 }",
      "output_dim: 4 simi_pow: 10");
  expect_formulas("capsule_config { max_k: 3 high_dim: 6 max_seq_len: 50 num_iters: 1 }",
                  "similarity: INNER_PRODUCT simi_pow: 1");
}

TEST(Mind, LearnsAgainstItemsOfTheBatchAndSampledOnes) {
  const std::string sampler = R"(negative_sampler { input_path: "items.txt" num_sample: 5
      attr_fields: "item" attr_fields: "price" item_id_field: "item" })";
  for (const char* data : {"", sampler.c_str()}) {
    for (const char* in_batch : {"true", "false"}) {
      if (*data == '\0' && in_batch == std::string("false")) continue;
      MindText text{.data = data};
      text.settings = cat("output_dim: 4 temperature: 0.5 in_batch_negative: ", in_batch);
      SmallModel model(text.pipeline());
      const Batch batch = model.batch({.rows = 16, .most_elements = 12});
      const double first = model.step(batch, 0.1f, 1);
      double loss = first;
      for (int step = 2; step <= 80; ++step) loss = model.step(batch, 0.1f, step);
      EXPECT_LT(loss, 0.8 * first) << data << in_batch;
    }
  }
}

TEST(Mind, GivesOutAllInterestsOfAUser) {
  SmallModel model(MindText{}.pipeline());
  std::vector<std::string> names;
  std::vector<int64_t> cols;
  for (const OutputSpec& output : default_outputs(heads_of(model.config, model.layout))) {
    names.push_back(output.name);
    cols.push_back(output.cols);
  }
  EXPECT_THAT(names, ElementsAre("user_tower_emb", "item_tower_emb"));
  EXPECT_THAT(cols, ElementsAre(4 * 3, 3));
}

TEST(Mind, SettingsThatDoNotFitAreRefused) {
  const auto refused = [](const MindText& text, const std::string& message) {
    EXPECT_THAT([&] { SmallModel(text.pipeline()); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const auto capsules = [&](const std::string& settings, const std::string& message) {
    refused({.user_tower = cat(kMindLayers, "capsule_config { ", settings, " }")},
            "mind.user_tower.capsule_config." + message);
  };
  capsules("max_k: 4", "high_dim is 0, expected at least 1");
  capsules("max_k: 0 high_dim: 3", "max_k is 0, expected 1 to 64");
  capsules("max_k: 65 high_dim: 3", "max_k is 65, expected 1 to 64");
  capsules("high_dim: 3 num_iters: 0", "num_iters is 0, expected 1 to 100");
  capsules("high_dim: 3 squash_pow: -1", "squash_pow is -1, expected at least 0");
  capsules("high_dim: 3 routing_init_method: 'ones'",
           "routing_init_method is \"ones\", expected normal or zeros");
  const auto layers = [&](const std::string& text, const std::string& message) {
    refused({.user_tower = cat(text, " ", kMindCapsules)}, "mind.user_tower." + message);
  };
  layers("concat_mlp { hidden_units: 4 }", "user_mlp has no hidden_units");
  layers(
      "user_mlp { hidden_units: [4, 4] dropout_ratio: [0.1, 0.2] } concat_mlp { hidden_units: 4 }",
      "user_mlp.dropout_ratio has different ratios");
  layers("user_mlp { hidden_units: 4 } hist_seq_mlp { hidden_units: 4 bias: true }",
         "hist_seq_mlp.bias is true, but layers of the history have no biases");
  refused({.user_tower = cat("user_mlp { hidden_units: 4 } ", kMindCapsules),
           .settings = "in_batch_negative: true"},
          "mind.user_tower.concat_mlp has no hidden_units");
  refused({.settings = "output_dim: 3"}, "mind has no negatives to learn from");
  refused({.settings = "in_batch_negative: true simi_pow: -1"}, "simi_pow is -1");
  refused({.history = "'item' 'clicks__item'"},
          "feature \"item\" of feature group \"history\" is not a sequence, but mind reads "
          "sequences of it alone; move it to \"user\"");
  refused({.history = "'user'"}, "has no sequence");
}

TEST(Mind, WarnsOfWhatHasNoEffect) {
  const MindText text{.user_tower = cat(kMindLayers, kMindCapsules, "user_seq_combine: SUM")};
  EXPECT_THAT(pipeline_warnings(parse_pipeline(text.pipeline(), "x")),
              testing::Contains(HasSubstr("user_seq_combine has no effect")));
}

TEST(Mind, WarnsOfSettingsOfLayersThatAreLinear) {
  const auto warnings = [](const std::string& layers) {
    const MindText text{.user_tower =
                            cat(layers, " concat_mlp { hidden_units: 4 } ", kMindCapsules)};
    return pipeline_warnings(parse_pipeline(text.pipeline(), "x"));
  };
  const auto of = [](const char* field) {
    return cat("mind.user_tower.", field,
               " has no effect: the last layer is linear, and it is the only one");
  };
  const std::string all = "activation: 'nn.Sigmoid' dropout_ratio: 0.1 use_bn: true";
  EXPECT_THAT(
      warnings(cat("user_mlp { hidden_units: 4 ", all, " bias: false } hist_seq_mlp { ",
                   "hidden_units: 4 use_ln: true }")),
      testing::IsSupersetOf({of("user_mlp.activation"), of("user_mlp.dropout_ratio"),
                             of("user_mlp.use_bn"), of("hist_seq_mlp.use_ln"),
                             std::string("mind.user_tower.user_mlp.bias: the last layer has biases "
                                         "nevertheless")}));
  EXPECT_THAT(warnings(cat("user_mlp { hidden_units: [8, 4] ", all, " } hist_seq_mlp { ",
                           "hidden_units: [8, 4] use_ln: true }")),
              testing::Not(testing::Contains(HasSubstr("linear"))));
  EXPECT_THAT(warnings("user_mlp { hidden_units: 4 } hist_seq_mlp { use_bn: true }"),
              testing::Contains(HasSubstr("user_tower.hist_seq_mlp.use_bn (there are no layers "
                                          "without hidden_units)")));
}

}  // namespace
}  // namespace emblem
