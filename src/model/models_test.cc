// Every model: it learns, and a row's prediction does not depend on the rows next to it.
#include <gmock/gmock.h>

#include <cmath>

#include "core/text/text.h"
#include "model/small_model_test.h"

namespace emblem {
namespace {

constexpr const char* kStart = R"(
    train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                   dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
    data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" label_fields: "buy" }
    feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
    feature_configs { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 embedding_name: "item_emb" } }
    feature_configs { id_feature { feature_name: "cate" num_buckets: 10 embedding_dim: 4 } }
    feature_configs { raw_feature { feature_name: "price" } }
    feature_configs { raw_feature { feature_name: "age" value_dim: 2 embedding_dim: 4 mlp {} } }
    feature_configs { raw_feature { feature_name: "rank" embedding_dim: 4 autodis { num_channels: 3 } } }
    feature_configs { sequence_feature {
      sequence_name: "click" sequence_length: 6
      features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 embedding_name: "item_emb" } }
      features { id_feature { feature_name: "cate" num_buckets: 10 embedding_dim: 4 } }
      features { raw_feature { feature_name: "price" } } } }
)";
constexpr const char* kModelsDeep = R"( feature_groups { group_name: "deep" feature_names: "user"
    feature_names: "item" feature_names: "cate" feature_names: "price" } )";
constexpr const char* kEmbedded = R"( feature_groups { group_name: "deep" feature_names: "user"
    feature_names: "age" feature_names: "price" feature_names: "rank" } )";
constexpr const char* kVectors = R"( feature_groups { group_name: "sparse" feature_names: "user"
    feature_names: "item" feature_names: "cate" } )";
constexpr const char* kModelsDense =
    R"( feature_groups { group_name: "dense" feature_names: "price" } )";
constexpr const char* kWide = R"( feature_groups { group_name: "wide" feature_names: "user"
    feature_names: "item" feature_names: "cate" group_type: WIDE } )";
constexpr const char* kSequence = R"( feature_groups { group_name: "seq" group_type: SEQUENCE
    feature_names: "item" feature_names: "cate" feature_names: "click__item"
    feature_names: "click__cate" feature_names: "click__price" } )";
constexpr const char* kBinary = R"( losses { binary_cross_entropy {} } metrics { auc {} } )";

// A deep group with an encoder over the clicks.
std::string encoded(const std::string& encoder, const std::string& features) {
  return R"( feature_groups { group_name: "deep" feature_names: "user" feature_names: "price"
      sequence_groups { group_name: "click" )" +
         features + R"( } sequence_encoders { )" + encoder + " } } ";
}
constexpr const char* kClicked =
    R"( feature_names: "item" feature_names: "cate" feature_names: "click__item"
        feature_names: "click__cate" )";

std::string towers(const std::string& extra = "mlp { hidden_units: 4 }") {
  return cat(R"(task_towers { tower_name: "ctr" label_name: "clk" losses { binary_cross_entropy {} }
                 metrics { auc {} } )",
             extra, R"( } task_towers { tower_name: "cvr" label_name: "buy"
                 losses { binary_cross_entropy {} } metrics { auc {} } weight: 0.5 )",
             extra, " }");
}

// Users with their clicks, and items.
std::string matching(const std::string& name, const std::string& settings) {
  return cat(R"( feature_groups { group_name: "user" feature_names: "user" feature_names: "age"
      sequence_groups { group_name: "click" feature_names: "click__item" feature_names: "click__cate" }
      sequence_encoders { pooling_encoder {} } }
    feature_groups { group_name: "item" feature_names: "item" feature_names: "cate" feature_names: "price" } )",
             name, R"( { user_tower { input: "user" mlp { hidden_units: 6 hidden_units: 4 } }
      item_tower { input: "item" mlp { hidden_units: 5 hidden_units: 4 } } in_batch_negative: true )",
             settings, " } losses { softmax_cross_entropy {} } metrics { recall_at_k {} } ");
}

struct Case {
  std::string name, model;
  friend std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }
};

std::vector<Case> cases() {
  const std::string deep = kModelsDeep, binary = kBinary;
  const std::string dnn = " dnn { deep { hidden_units: 6 } } ";
  return {
      {"lr", std::string(kWide) + "lr {}" + binary},
      {"fm", std::string(kWide) + R"( feature_groups { group_name: "fm" feature_names: "user"
          feature_names: "item" } fm {} )" +
                 binary},
      {"wide_and_deep",
       std::string(kWide) + deep + "wide_and_deep { deep { hidden_units: 6 } }" + binary},
      {"deepfm", std::string(kWide) + deep + kVectors +
                     "deepfm { deep { hidden_units: 6 } final { hidden_units: 4 } }" + binary},
      {"dnn", deep + dnn + binary},
      {"dense_embeddings", kEmbedded + dnn + binary},
      {"dcn_v1",
       deep +
           "dcn_v1 { cross { cross_num: 2 } deep { hidden_units: 6 } final { hidden_units: 4 } }" +
           binary},
      {"dcn_v2",
       deep +
           "dcn_v2 { cross { cross_num: 2 } deep { hidden_units: 6 } final { hidden_units: 4 } }" +
           binary},
      {"dlrm", std::string(kModelsDense) + kVectors +
                   "dlrm { dense_mlp { hidden_units: 4 } final { hidden_units: 4 } }" + binary},
      {"multi_tower", deep + kModelsDense +
                          R"(multi_tower { towers { input: "deep" mlp { hidden_units: 6 } }
          towers { input: "dense" mlp { hidden_units: 3 } } final { hidden_units: 4 } })" +
                          binary},
      {"multi_tower_din", deep + kSequence + R"(multi_tower_din {
          towers { input: "deep" mlp { hidden_units: 6 } }
          din_towers { input: "seq" attn_mlp { hidden_units: 5 } } final { hidden_units: 4 } })" +
                              binary},
      {"mask_net", deep +
                       "mask_net { mask_net_module { n_mask_blocks: 2 mask_block { hidden_dim: 5 } "
                       "top_mlp { hidden_units: 4 } } }" +
                       binary},
      {"mask_net_serial", deep +
                              "mask_net { mask_net_module { n_mask_blocks: 2 mask_block { "
                              "hidden_dim: 5 } use_parallel: false } }" +
                              binary},
      {"wukong", std::string(kModelsDense) + kVectors + R"(wukong { dense_mlp { hidden_units: 4 }
          wukong_layers { lcb_feature_num: 2 fmb_feature_num: 3 compressed_feature_num: 2 feature_num_mlp { hidden_units: 6 } }
          wukong_layers { lcb_feature_num: 2 fmb_feature_num: 3 compressed_feature_num: 2 feature_num_mlp { hidden_units: 6 } }
          final { hidden_units: 4 } })" +
                     binary},
      {"xdeepfm", std::string(kWide) + deep +
                      R"(xdeepfm { cin { cin_layer_size: 3 cin_layer_size: 2 }
          deep { hidden_units: 6 } final { hidden_units: 4 } wide_embedding_dim: 4
          wide_init_fn: "nn.init.uniform_,a=-0.5,b=0.5" })" +
                      binary},
      {"rocket_launching", deep + R"(rocket_launching { share_mlp { hidden_units: 6 }
          booster_mlp { hidden_units: 8 hidden_units: 4 } light_mlp { hidden_units: 4 }
          feature_based_distillation: true } num_class: 2
          losses { softmax_cross_entropy {} } metrics { auc {} })"},
      {"dssm", matching("dssm", "output_dim: 3 similarity: COSINE temperature: 0.2")},
      {"dssm_without_output_dim", matching("dssm", "")},
      {"dssm_v2", matching("dssm_v2", "output_dim: 3")},
      {"dat", R"( feature_groups { group_name: "user" feature_names: "age" }
          feature_groups { group_name: "user_twin" feature_names: "user" }
          feature_groups { group_name: "item" feature_names: "cate" feature_names: "price" }
          feature_groups { group_name: "item_twin" feature_names: "item" }
          dat { user_tower { input: "user" augment_input: "user_twin" mlp { hidden_units: 6 } }
            item_tower { input: "item" augment_input: "item_twin" mlp { hidden_units: 6 } }
            output_dim: 4 amm_u_weight: 0.01 amm_i_weight: 0.02 in_batch_negative: true }
          losses { softmax_cross_entropy {} } metrics { recall_at_k {} } )"},
      {"mind", R"( feature_groups { group_name: "user" feature_names: "user" feature_names: "age" }
          feature_groups { group_name: "clicks" group_type: SEQUENCE feature_names: "click__item"
            feature_names: "click__cate" feature_names: "click__price" }
          feature_groups { group_name: "item" feature_names: "item" feature_names: "cate" }
          mind { user_tower { input: "user" history_input: "clicks" user_mlp { hidden_units: 6 }
              capsule_config { max_k: 3 high_dim: 5 } concat_mlp { hidden_units: 16 } }
            item_tower { input: "item" mlp { hidden_units: 8 } } output_dim: 4
            in_batch_negative: true }
          losses { softmax_cross_entropy {} } metrics { recall_at_k {} } )"},
      {"ensemble", deep + dnn + "ensemble_size: 3" + binary},
      {"ensemble_of_towers",
       deep + "mmoe { expert_mlp { hidden_units: 5 } num_expert: 2 gate_mlp { hidden_units: 3 } " +
           towers() + "} ensemble_size: 2"},
      {"multi_class",
       deep + dnn + "num_class: 2 losses { softmax_cross_entropy {} } metrics { accuracy {} }"},
      {"regression", deep + dnn + "losses { l2_loss {} } metrics { mean_squared_error {} }"},
      {"focal", deep + dnn + "losses { binary_focal_loss {} } metrics { auc {} }"},
      {"ranking", deep + dnn +
                      R"(losses { lambdarank_loss { session_name: "cate" } }
                         metrics { ndcg_at_k { grouping_key: "cate" } })"},
      {"jrc",
       deep + dnn +
           R"(num_class: 2 losses { jrc_loss { session_name: "cate" } } metrics { auc {} })"},
      {"mmoe",
       deep + "mmoe { expert_mlp { hidden_units: 5 } num_expert: 2 gate_mlp { hidden_units: 3 } " +
           towers() + "}"},
      {"ple",
       deep + R"(ple { extraction_networks { network_name: "l1" expert_num_per_task: 2 share_num: 1
          task_expert_net { hidden_units: 5 } share_expert_net { hidden_units: 5 } }
          extraction_networks { network_name: "l2" expert_num_per_task: 1 share_num: 2
          task_expert_net { hidden_units: 4 } share_expert_net { hidden_units: 4 } } )" +
           towers() + "}"},
      {"dbmtl", deep + R"(dbmtl { mask_net { n_mask_blocks: 1 mask_block { hidden_dim: 5 } }
          bottom_mlp { hidden_units: 6 } expert_mlp { hidden_units: 5 } num_expert: 2
          task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: 4 }
            losses { binary_cross_entropy {} } metrics { auc {} } }
          task_towers { tower_name: "cvr" label_name: "buy" mlp { hidden_units: 4 }
            relation_tower_names: "ctr" relation_mlp { hidden_units: 3 }
            losses { binary_cross_entropy {} } metrics { auc {} } } })"},
      {"pepnet",
       R"( feature_groups { group_name: "all" feature_names: "user" feature_names: "item" }
          feature_groups { group_name: "domain" feature_names: "cate" }
          feature_groups { group_name: "uia" feature_names: "user" feature_names: "price" }
          pepnet { ppnet_hidden_units: 5 ppnet_hidden_units: 4 )" +
           towers() + "}"},
      {"pepnet_domains",
       R"( feature_groups { group_name: "all" feature_names: "user" feature_names: "item" }
          pepnet { domain_input_name: "buy" task_domain_num: 2
            task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: 4 }
              losses { binary_cross_entropy {} } metrics { auc {} } } })"},
      {"variational_dropout",
       deep + dnn + "variational_dropout { regularization_lambda: 0.01 }" + binary},
      {"din_encoder",
       encoded("din_encoder { attn_mlp { hidden_units: 5 } }", kClicked) + dnn + binary},
      {"simple_attention", encoded("simple_attention {}", kClicked) + dnn + binary},
      {"pooling_encoder", encoded("pooling_encoder {}", kClicked) + dnn + binary},
      {"pooling_sum",
       encoded(R"(pooling_encoder { pooling_type: "sum" })", kClicked) + dnn + binary},
      {"self_attention",
       encoded("self_attention_encoder { multihead_attn_dim: 8 num_heads: 2 }", kClicked) + dnn +
           binary},
      {"multi_window_din",
       encoded(
           "multi_window_din_encoder { windows_len: 2 windows_len: 3 attn_mlp { hidden_units: 5 } "
           "}",
           R"( feature_names: "item" feature_names: "click__item" feature_names: "click__cate" )") +
           dnn + binary},
      {"tdm", R"( feature_groups { group_name: "seq" group_type: SEQUENCE feature_names: "item"
          feature_names: "click__item" feature_names: "click__cate" }
          feature_groups { group_name: "user" feature_names: "user" feature_names: "price" }
          tdm { multiwindow_din { windows_len: 2 windows_len: 3 attn_mlp { hidden_units: 5 } }
            final { hidden_units: 6 } }
          num_class: 2 losses { softmax_cross_entropy {} } metrics { auc {} })"},
  };
}

class EveryModel : public testing::TestWithParam<Case> {
 protected:
  std::string pipeline() const { return cat(kStart, " model_config { ", GetParam().model, " }"); }
};

TEST_P(EveryModel, Learns) {
  SmallModel model(pipeline());
  const Batch batch = model.batch({.rows = 24});
  const double first = model.step(batch, 0.3f, 1), goal = first - 0.02;
  double loss = first;
  for (int step = 2; step <= 1000 && loss >= goal; ++step) {
    loss = model.step(batch, 0.3f, step);
    ASSERT_TRUE(std::isfinite(loss)) << "step " << step;
  }
  EXPECT_LT(loss, goal);
}

// With evaluation of a batch as a whole and of its rows one by one.
TEST_P(EveryModel, PredictsARowWithoutRegardToTheOthers) {
  SmallModel model(pipeline());
  const Batch all = model.batch({.rows = 9});
  for (int step = 1; step <= 3; ++step) model.step(all, 0.2f, step);
  model.forward(all);
  std::vector<std::vector<float>> together;
  for (size_t head = 0; head < model.model->heads().size(); ++head) {
    if (!model.model->heads()[head].spec.in_training_only) together.push_back(model.logits(head));
    // Ranks compare rows.
    if (model.model->heads()[head].spec.role == HeadSpec::Role::kRanks) together.back().clear();
  }
  for (int64_t row = 0; row < all.rows; ++row) {
    model.forward_rows(all, row, 1);
    for (size_t head = 0; head < together.size(); ++head) {
      if (together[head].empty()) continue;
      const std::vector<float> alone = model.logits(head);
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_NEAR(alone[i], together[head][static_cast<size_t>(row) * alone.size() + i], 1e-5)
            << "row " << row << " of head " << head;
    }
  }
}

TEST_P(EveryModel, TakesEmptySequencesAndBags) {
  SmallModel model(pipeline());
  const Batch without = model.batch({.rows = 6, .most_elements = 0, .most_keys = 3});
  const Batch with = model.batch({.rows = 6, .most_elements = 6, .fewest_elements = 6}, 2);
  const Batch single = model.batch({.rows = 1, .most_elements = 1, .fewest_elements = 1}, 3);
  int64_t step = 1;
  for (const Batch* batch : {&without, &with, &single, &without})
    EXPECT_TRUE(std::isfinite(model.step(*batch, 0.1f, step++)));
}

TEST(Ensemble, AveragesTheLogitsOfItsModels) {
  const std::string text =
      cat(kStart, "model_config {", kModelsDeep, " dnn { deep { hidden_units: 6 } } ", kBinary);
  SmallModel both(text + " ensemble_size: 2 }");
  const Batch batch = both.batch();
  both.forward(batch);
  const std::vector<float> mean = both.logits();
  std::vector<float> sum(mean.size(), 0.0f);
  for (const std::string prefix : {"member_1.", "member_2."}) {
    SmallModel one(text + " }");
    for (const Parameter& to : one.model->graph().parameter_list()) {
      const auto parameters = both.model->graph().parameter_list();
      const auto from =
          std::find_if(parameters.begin(), parameters.end(),
                       [&](const Parameter& each) { return each.name == prefix + to.name; });
      ASSERT_NE(from, parameters.end()) << prefix << to.name;
      const float* values = both.model->graph().parameters().data + from->begin;
      std::copy(values, values + to.rows * to.cols,
                one.model->graph().parameters().data + to.begin);
    }
    one.forward(batch);
    const std::vector<float> logits = one.logits();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += logits[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(mean[i], sum[i] / 2, 1e-6);
  EXPECT_THAT(both.model->loss_names(), testing::ElementsAre("binary_cross_entropy_member_1",
                                                             "binary_cross_entropy_member_2"));
}

TEST(Ensemble, HasAtLeastOneModel) {
  const std::string model = cat("model_config {", kModelsDeep, " dnn { deep { hidden_units: 6 } } ",
                                kBinary, " ensemble_size: 0 }");
  EXPECT_THAT(
      [&] { SmallModel(kStart + model); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("ensemble_size is 0, expected at least 1")));
}

TEST(VariationalDropout, DropsFeaturesOfDeepGroupsOnly) {
  SmallModel model(cat(kStart, " model_config { ", kWide, kModelsDeep, kBinary, R"(
      xdeepfm { cin { cin_layer_size: 3 } deep { hidden_units: 6 } final { hidden_units: 4 }
        wide_embedding_dim: 4 } variational_dropout { regularization_lambda: 0.01 } })"));
  EXPECT_THAT(model.model->loss_names(),
              testing::UnorderedElementsAre("binary_cross_entropy", "deep_feature_p_loss"));
}

// A query and a sequence that share a table have nodes of their own.
TEST(Gradients, OfAllFeaturesOfATableAreClipped) {
  SmallModel model(cat(kStart, " model_config { ",
                       encoded("din_encoder { attn_mlp { hidden_units: 5 } }", kClicked),
                       " dnn { deep { hidden_units: 6 } } ", kBinary, "}"));
  const auto rows = [&] {
    std::vector<float> values;
    for (Table* table : model.model->tables())
      table->export_rows(model.context, 100, [&](const RowBatch& batch) {
        values.insert(values.end(), batch.weights.begin(), batch.weights.end());
      });
    return values;
  };
  const Batch batch = model.batch({.fewest_elements = 2});
  const auto largest_step = [&](float most) {
    const std::vector<float> before = rows();
    model.forward(batch, Phase::kTrain, 1);
    model.model->backward(model.context);
    model.model->clip_embedding_gradients(model.context, most);
    model.model->update_embeddings(model.context, 1.0f, 1.0f, 1);
    const std::vector<float> after = rows();
    float largest = 0.0f;
    for (size_t i = 0; i < before.size(); ++i)
      largest = std::max(largest, std::abs(after[i] - before[i]));
    return largest;
  };
  EXPECT_LT(largest_step(1e-9f), 1e-6f);
  EXPECT_GT(largest_step(1.0f), 1e-4f);
}

TEST(SelfAttentionEncoder, StartsWithTheValuesOfTorchsMultiheadAttention) {
  constexpr int64_t kWidth = 32;
  SmallModel model(
      cat(kStart, " model_config { ",
          encoded(cat("self_attention_encoder { multihead_attn_dim: ", kWidth, " num_heads: 2 }"),
                  kClicked),
          " dnn { deep { hidden_units: 6 } } ", kBinary, "}"));
  const auto largest = [&](const std::string& name) {
    float most = -1.0f;
    for (const Parameter& each : model.model->graph().parameter_list()) {
      if (each.name != "encoders.deep.click." + name) continue;
      const float* values = model.model->graph().parameters().data + each.begin;
      for (int64_t i = 0; i < each.rows * each.cols; ++i)
        most = std::max(most, std::abs(values[i]));
    }
    return most;
  };
  const float stacked = std::sqrt(6.0f / (4 * kWidth)), linear = 1.0f / std::sqrt(float{kWidth});
  for (const std::string part : {"query", "key", "value"}) {
    EXPECT_NEAR(largest(part + ".0.weight"), std::sqrt(6.0f / (8 + kWidth)), 0.02f) << part;
    EXPECT_EQ(largest(part + ".0.bias"), 0.0f) << part;
    EXPECT_NEAR(largest(part + ".1.weight"), stacked, 0.01f) << part;
    EXPECT_EQ(largest(part + ".1.bias"), 0.0f) << part;
  }
  EXPECT_NEAR(largest("output.0.weight"), linear, 0.01f);
  EXPECT_EQ(largest("output.0.bias"), 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace emblem
