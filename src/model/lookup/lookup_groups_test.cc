// Which tables a model has, and which lookups read them.
#include "model/lookup/lookup_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/small_model_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;

using testing::UnorderedElementsAre;

constexpr const char* kFeatures = R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" }
    feature_configs { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 2 embedding_name: "item_emb" } }
    feature_configs { id_feature { feature_name: "cate" num_buckets: 10 embedding_dim: 3 } }
    feature_configs { sequence_feature {
      sequence_name: "click" sequence_length: 6
      features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 2 embedding_name: "item_emb" } }
      features { id_feature { feature_name: "cate" num_buckets: 10 embedding_dim: 3 } } } }
)";

struct Lookups {
  explicit Lookups(const std::string& groups)
      : config(parse_pipeline(std::string(kFeatures) + " model_config { " + groups +
                                  " dnn { deep { hidden_units: 2 } } }",
                              "test.config")),
        layout(layout_of(config)),
        lookups(lookup_groups_of(config.model_config(), layout, 1)) {}

  static std::vector<std::string> tables(const LookupGroup& group) {
    std::vector<std::string> names;
    for (const GroupedFeature& each : group.features) names.push_back(each.table);
    return names;
  }

  config::PipelineConfig config;
  FeatureLayout layout;
  std::vector<LookupGroup> lookups;
};

TEST(LookupGroups, DeepAndWideGroupsHaveTablesOfTheirOwn) {
  const Lookups model(
      R"( feature_groups { group_name: "deep" feature_names: "item" feature_names: "cate" }
      feature_groups { group_name: "more" feature_names: "item" }
      feature_groups { group_name: "wide" feature_names: "cate" group_type: WIDE } )");
  ASSERT_EQ(model.lookups.size(), 2u);
  EXPECT_THAT(Lookups::tables(model.lookups[0]), ElementsAre("item_emb", "cate_emb"));
  EXPECT_EQ(model.lookups[0].width, 5);
  EXPECT_EQ(model.lookups[0].features[1].begin, 2);
  EXPECT_THAT(Lookups::tables(model.lookups[1]), ElementsAre("cate_emb_wide"));
}

TEST(LookupGroups, ASuffixIsAnotherTable) {
  const Lookups model(R"( feature_groups { group_name: "deep" feature_names: "item" }
      feature_groups { group_name: "more" feature_names: "item" embedding_name_suffix: "b" }
      feature_groups { group_name: "wide" feature_names: "cate" group_type: WIDE embedding_name_suffix: "b" } )");
  EXPECT_THAT(Lookups::tables(model.lookups.at(0)), ElementsAre("item_emb", "item_emb_b"));
  EXPECT_THAT(Lookups::tables(model.lookups.at(1)), ElementsAre("cate_emb_wide_b"));
}

TEST(LookupGroups, SequencesHaveTablesOfTheirOwnAndAreStackedWhereTheyShareThem) {
  const Lookups model(
      R"( feature_groups { group_name: "deep" feature_names: "item" feature_names: "cate"
      sequence_groups { group_name: "click" feature_names: "item" feature_names: "cate"
                        feature_names: "click__item" feature_names: "click__cate" }
      sequence_encoders { pooling_encoder { input: "click" } } } )");
  ASSERT_EQ(model.lookups.size(), 4u);
  EXPECT_THAT(Lookups::tables(model.lookups[0]), ElementsAre("item_emb", "cate_emb"));
  EXPECT_EQ(model.lookups[1].sequence, -1);
  EXPECT_THAT(Lookups::tables(model.lookups[1]), ElementsAre("cate_emb_seq"));
  EXPECT_EQ(model.lookups[2].sequence, 0);
  EXPECT_THAT(Lookups::tables(model.lookups[2]), ElementsAre("click__cate_emb_seq"));
  EXPECT_TRUE(model.lookups[3].is_stacked);
  EXPECT_THAT(Lookups::tables(model.lookups[3]), ElementsAre("item_emb_seq", "item_emb_seq"));
  EXPECT_EQ(model.lookups[3].width, 2);
}

// The query's key 3 also occurs twice in the sequence: its row is updated once, by the sum of its
// three gradients.
TEST(StackedLookup, UpdatesAKeyOfQueryAndSequenceOnce) {
  SmallModel model(std::string(kFeatures) +
                   R"( model_config { feature_groups { group_name: "deep" feature_names: "cate"
      sequence_groups { group_name: "click" feature_names: "item" feature_names: "click__item" }
      sequence_encoders { simple_attention { input: "click" } } }
      dnn { deep { hidden_units: 2 } } losses { binary_cross_entropy {} } metrics { auc {} } } )");
  Batch batch = model.batch({.rows = 2});
  const auto set = [&](const std::string& feature, std::vector<int64_t> keys) {
    SparseColumn& column =
        batch.sparse[static_cast<size_t>(model.layout.find(feature).sparse_index)];
    column.keys.assign(keys.begin(), keys.end());
    column.offsets.clear();
  };
  batch.sequences[0].offsets.assign({0, 1, 3});
  set("item", {3, 4});
  set("cate", {0, 0});
  set("click__item", {3, 3, 5});
  set("click__cate", {0, 0, 0});

  Table* table = nullptr;
  for (Table* each : model.model->tables())
    if (each->settings().name == "item_emb_seq") table = each;
  ASSERT_NE(table, nullptr);
  const auto row = [&](int64_t key) {
    std::vector<float> values(2);
    EXPECT_TRUE(table->read(key, values));
    return values;
  };
  const auto loss_with = [&](int64_t key, int column, float change) {
    std::vector<float> values = row(key);
    const std::vector<float> before = values;
    values[column] += change;
    const auto store = [&](const std::vector<float>& weights) {
      table->import_rows(model.context, {.keys = {&key, 1}, .weights = weights});
    };
    store(values);
    model.forward(batch);
    const double loss = model.model->loss(model.context);
    store(before);
    return loss;
  };
  constexpr float kChange = 1e-2f, kRate = 0.5f;
  for (const int64_t key : {3, 4, 5}) {
    for (int column = 0; column < 2; ++column) {
      const double slope =
          (loss_with(key, column, kChange) - loss_with(key, column, -kChange)) / (2 * kChange);
      const std::vector<float> before = row(key);
      model.forward(batch, Phase::kTrain);
      model.model->backward(model.context);
      model.model->update_embeddings(model.context, 1.0f, kRate, 1);
      EXPECT_NEAR(row(key)[column], before[column] - kRate * slope, 2e-4) << "key " << key;
    }
  }
}

// Shares of query and sequence would hide each other in the sum.
TEST(StackedLookup, CountsTheValuesOfEachFeature) {
  SmallModel model(R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer {} } dense_optimizer { sgd_optimizer {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" }
    feature_configs { id_feature { feature_name: "item" dynamicemb {} embedding_dim: 2 embedding_name: "item_emb" } }
    feature_configs { sequence_feature {
      sequence_name: "click" sequence_length: 6
      features { id_feature { feature_name: "item" dynamicemb {} embedding_dim: 2 embedding_name: "item_emb" } } } }
    model_config {
      feature_groups { group_name: "deep"
        sequence_groups { group_name: "click" feature_names: "item" feature_names: "click__item" }
        sequence_encoders { simple_attention { input: "click" } } }
      dnn { deep { hidden_units: 2 } } losses { binary_cross_entropy {} } metrics { auc {} } })");
  const auto batch_of = [&](const std::vector<int64_t>& items, const std::vector<int64_t>& clicks) {
    Batch batch = model.batch({.rows = 2});
    batch.sequences[0].offsets.assign({0, 1, 3});
    const auto set = [&](const std::string& feature, const std::vector<int64_t>& keys) {
      SparseColumn& column =
          batch.sparse[static_cast<size_t>(model.layout.find(feature).sparse_index)];
      column.keys.assign(keys.begin(), keys.end());
      column.offsets.clear();
    };
    set("item", items);
    set("click__item", clicks);
    return batch;
  };
  const auto counts = [&] {
    std::vector<std::pair<std::string, LookupCounts>> found;
    for (const FeatureLookups& one : model.model->take_lookup_counts(model.context))
      found.emplace_back(one.feature, one.counts);
    return found;
  };
  using Counts = LookupCounts;
  model.forward(batch_of({3, 4}, {3, 5, 5}), Phase::kTrain);
  EXPECT_THAT(counts(), UnorderedElementsAre(std::pair("item", Counts{2, 0}),
                                             std::pair("click__item", Counts{3, 0})));
  model.forward(batch_of({30, 40}, {3, 4, 5}));
  model.forward(batch_of({3, 40}, {3, 4, 50}));
  EXPECT_THAT(counts(), UnorderedElementsAre(std::pair("item", Counts{4, 3}),
                                             std::pair("click__item", Counts{6, 1})));
  EXPECT_THAT(counts(), UnorderedElementsAre(std::pair("item", Counts{0, 0}),
                                             std::pair("click__item", Counts{0, 0})));
}

}  // namespace
}  // namespace emblem
