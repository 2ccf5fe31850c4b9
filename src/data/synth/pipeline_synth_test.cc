#include "data/synth/pipeline_synth.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "config/feature/tree_items.h"
#include "core/math/hash.h"
#include "core/threads/thread_pool.h"
#include "data/format/local_input.h"
#include "data/synth/pipeline_truth.h"
#include "data/synth/presets.h"
#include "data/test_data.h"
#include "emblem/error.h"
#include "model/check/check.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr char kTowers[] = R"(
    mmoe { expert_mlp { hidden_units: 8 } num_expert: 2
      task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: 8 }
        losses { binary_cross_entropy {} } metrics { auc {} } }
      task_towers { tower_name: "cvr" label_name: "buy" mlp { hidden_units: 8 }
        task_space_indicator_label: "clk" in_task_space_weight: 1 out_task_space_weight: 0
        losses { binary_cross_entropy {} } metrics { auc {} } } })";

// Ids as they are, numbers, a history with its item.
std::string encoded_pipeline() {
  return std::string(R"(
  data_config { with_header: true fg_mode: FG_NONE label_fields: "clk" label_fields: "buy" }
  feature_configs { id_feature { feature_name: "user" num_buckets: 500 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "item" num_buckets: 300 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "tags" num_buckets: 40 embedding_dim: 4 weighted: true } }
  feature_configs { raw_feature { feature_name: "price" } }
  feature_configs { raw_feature { feature_name: "vector" value_dim: 3 } }
  feature_configs { raw_feature { feature_name: "age" boundaries: [10, 20, 30] embedding_dim: 4 } }
  feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 12 sequence_delim: "|"
    features { id_feature { feature_name: "item" num_buckets: 300 embedding_dim: 4 } }
    features { raw_feature { feature_name: "time" } } } }
  model_config {
    feature_groups { group_name: "all" feature_names: "user" feature_names: "item" feature_names: "tags"
      feature_names: "price" feature_names: "vector" feature_names: "age"
      sequence_groups { group_name: "clicks" feature_names: "item" feature_names: "clicks__item"
        feature_names: "clicks__time" }
      sequence_encoders { din_encoder { attn_mlp { hidden_units: 4 } } } })") +
         kTowers + "}";
}

// Features of every kind.
std::string computed_pipeline() {
  return std::string(R"text(
  data_config { with_header: true fg_mode: FG_DAG label_fields: "clk" label_fields: "buy" }
  feature_configs { id_feature { feature_name: "user" expression: "user:user" hash_bucket_size: 500
    embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "color" expression: "item:color"
    vocab_list: ["red", "green", "blue"] embedding_dim: 4 } }
  feature_configs { raw_feature { feature_name: "count" expression: "item:count"
    normalizer: "method=expression,expr=log(x+3)" } }
  feature_configs { raw_feature { feature_name: "price" expression: "item:price"
    boundaries: [1, 5, 50] embedding_dim: 4 } }
  feature_configs { combo_feature { feature_name: "combo" expression: "user:user"
    expression: "item:color" hash_bucket_size: 100 embedding_dim: 4 } }
  feature_configs { lookup_feature { feature_name: "lookup" map: "user:by_color" key: "item:color" } }
  feature_configs { lookup_feature { feature_name: "vectors" map: "user:vectors" key: "item:color"
    value_dim: 2 combiner: "" } }
  feature_configs { match_feature { feature_name: "match" nested_map: "user:nested"
    pkey: "item:color" skey: "item:brand" num_buckets: 5 embedding_dim: 4 } }
  feature_configs { match_feature { feature_name: "match_all" nested_map: "user:nested_all"
    pkey: "ALL" skey: "item:brand" } }
  feature_configs { expr_feature { feature_name: "expr" expression: "a > b ? a : b/2"
    variables: "user:a" variables: "item:b" } }
  feature_configs { overlap_feature { feature_name: "overlap" query: "user:query"
    title: "item:title" method: "query_common_ratio" } }
  feature_configs { kv_dot_product { feature_name: "dot" query: "user:likes"
    document: "item:has" separator: "|" } }
  feature_configs { bool_mask_feature { feature_name: "mask" expression: "user:ids"
    expression: "user:valid" separator: "," num_buckets: 30 embedding_dim: 4 } }
  feature_configs { combine_feature { feature_name: "combine" expression: "user:event"
    num_buckets: 10 embedding_dim: 4
    value_map { key: "click" value: 1 } value_map { key: "buy" value: 2 } } }
  feature_configs { sequence_id_feature { feature_name: "colors" expression: "user:colors"
    sequence_length: 5 sequence_delim: ";" vocab_list: ["red", "green", "blue"] embedding_dim: 4 } }
  feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 8 sequence_delim: ";"
    features { id_feature { feature_name: "user" expression: "item:user" hash_bucket_size: 500
      embedding_dim: 4 } }
    features { lookup_feature { feature_name: "seen" map: "user:seen" key: "item:user"
      boundaries: [1, 5] embedding_dim: 4 } } } }
  model_config {
    feature_groups { group_name: "all" feature_names: ["user", "color", "count", "price", "combo",
        "lookup", "vectors", "match", "match_all", "expr", "overlap", "dot", "mask", "combine"]
      sequence_groups { group_name: "clicks" feature_names: ["user", "clicks__user", "clicks__seen"] }
      sequence_groups { group_name: "colors" feature_names: ["color", "colors"] }
      sequence_encoders { din_encoder { input: "clicks" attn_mlp { hidden_units: 4 } } }
      sequence_encoders { din_encoder { input: "colors" attn_mlp { hidden_units: 4 } } } })text") +
         kTowers + "}";
}

std::string single_pipeline(const std::string& loss, const std::string& metric, int classes) {
  return cat(R"(
  data_config { with_header: true fg_mode: FG_DAG label_fields: "y" }
  feature_configs { id_feature { feature_name: "a" num_buckets: 50 embedding_dim: 4 } }
  feature_configs { raw_feature { feature_name: "b" } }
  model_config { num_class: )",
             classes, R"(
    feature_groups { group_name: "deep" feature_names: "a" feature_names: "b" }
    multi_tower { towers { input: "deep" mlp { hidden_units: 8 } } final { hidden_units: 8 } }
    losses { )",
             loss, " {} } metrics { ", metric, " {} } }");
}

class PipelineSynth : public testing::Test {
 protected:
  PipelineSynthResult write(const config::PipelineConfig& config, const std::string& name,
                            int64_t rows, uint64_t seed = 1, int threads = 2) {
    ThreadPool pool(threads);
    Context context;
    context.threads = &pool;
    PipelineSynthOptions options;
    options.name = name;
    options.out = path(name);
    options.rows = rows;
    options.test_rows = rows;
    options.seed = seed;
    return synthesize_for(context, config, options);
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  std::string text(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Rows that are read; throws at the first that cannot be.
  int64_t read(config::PipelineConfig config, const std::string& name) {
    config.set_train_input_path(path(name) + "/train");
    config.set_eval_input_path(path(name) + "/test");
    follow_local_files(&config);
    if (config.data_config().has_tdm_sampler()) {
      config::TDMSampler& sampler = *config.mutable_data_config()->mutable_tdm_sampler();
      sampler.set_item_input_path(path(name) + "/node_table.txt");
      sampler.set_edge_input_path(path(name) + "/edge_table.txt");
      sampler.clear_predict_edge_input_path();
    }
    Loader loader(config.data_config(), layout_of(config), training_loader_options(config));
    Batch batch;
    int64_t rows = 0;
    while (loader.next(batch)) rows += batch.rows;
    EXPECT_EQ(loader.statistics().bad_rows, 0);
    return rows;
  }

  TempFolder folder_;
};

config::PipelineConfig parsed(const std::string& text) { return parse_pipeline(text, "test"); }

TEST_F(PipelineSynth, WritesWhatAPipelineOfEncodedDataReads) {
  const config::PipelineConfig config = parsed(encoded_pipeline());
  write(config, "data", 1500);
  EXPECT_EQ(read(config, "data"), 1500);
}

TEST_F(PipelineSynth, WritesWhatFeaturesOfEveryKindRead) {
  const config::PipelineConfig config = parsed(computed_pipeline());
  write(config, "data", 1500);
  EXPECT_EQ(read(config, "data"), 1500);
}

TEST_F(PipelineSynth, WritesThePresets) {
  for (const std::string name : {"taobao", "ccp", "census"}) {
    write(preset_pipeline(name), name, 300);
    EXPECT_EQ(read(preset_pipeline(name), name), 300) << name;
  }
  EXPECT_THROW(preset_pipeline("kaggle"), Error);
}

TEST_F(PipelineSynth, TheSameSeedWritesTheSameBytes) {
  const config::PipelineConfig config = parsed(encoded_pipeline());
  write(config, "a", 3000, 5, 1);
  write(config, "b", 3000, 5, 4);
  write(config, "c", 3000, 6, 4);
  const std::string first = text("a/train/part-00000.csv");
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, text("b/train/part-00000.csv"));
  EXPECT_EQ(text("a/test/part-00000.csv"), text("b/test/part-00000.csv"));
  EXPECT_NE(first, text("c/train/part-00000.csv"));
  EXPECT_NE(first, text("a/test/part-00000.csv"));
}

double plain_auc(const std::vector<std::pair<double, double>>& scores) {
  double won = 0, pairs = 0;
  for (const auto& [positive, label] : scores) {
    if (label == 0) continue;
    for (const auto& [negative, other] : scores) {
      if (other != 0) continue;
      ++pairs;
      won += positive > negative ? 1 : positive == negative ? 0.5 : 0;
    }
  }
  return won / pairs;
}

double best(const PipelineSynthResult& result, const std::string& metric) {
  for (const auto& [name, value] : result.best)
    if (name == metric) return value;
  ADD_FAILURE() << metric;
  return 0;
}

TEST_F(PipelineSynth, TheReportedLimitIsThatOfTheTruth) {
  const config::PipelineConfig config = parsed(encoded_pipeline());
  const PipelineSynthResult result = write(config, "data", 2000);
  const PipelineSchema schema = schema_for(config, 1);
  const PipelineTruth truth(schema, 1, 1.05);
  std::vector<std::pair<double, double>> ctr, cvr, cvr_of_clicks;
  PipelineRow row;
  int64_t buys_without_clicks = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    truth.draw(SynthSplit::kTest, i, row);
    ctr.emplace_back(row.truths[0], row.labels[0]);
    cvr.emplace_back(row.truths[1], row.labels[1]);
    cvr_of_clicks.emplace_back(row.truths_given_parent[1], row.labels[1]);
    buys_without_clicks += row.labels[1] > 0 && row.labels[0] == 0;
  }
  EXPECT_EQ(buys_without_clicks, 0);
  EXPECT_NEAR(best(result, "auc_ctr"), plain_auc(ctr), 1e-4);
  EXPECT_NEAR(best(result, "auc_cvr"), plain_auc(cvr_of_clicks), 1e-4) << "it learns clicks alone";
  config::PipelineConfig of_all_rows = config;
  of_all_rows.mutable_model_config()
      ->mutable_mmoe()
      ->mutable_task_towers(1)
      ->set_out_task_space_weight(1);
  EXPECT_NEAR(best(write(of_all_rows, "all", 2000), "auc_cvr"), plain_auc(cvr), 1e-4);
  EXPECT_GT(plain_auc(cvr), plain_auc(cvr_of_clicks) + 0.01);
  EXPECT_GT(best(result, "auc_ctr"), 0.7);
  EXPECT_LT(best(result, "auc_ctr"), 0.95);
  const auto metadata = nlohmann::json::parse(text("data/metadata.json"));
  EXPECT_EQ(metadata["best"]["auc_ctr"], best(result, "auc_ctr"));
  EXPECT_EQ(metadata["rows"], 2000);
}

// Without the history an ideal model would be worse: its item is what counts.
TEST_F(PipelineSynth, HistoriesMatterByTheirItems) {
  const config::PipelineConfig config = parsed(encoded_pipeline());
  const PipelineSchema schema = schema_for(config, 1);
  size_t histories = 0;
  for (const PipelineColumn& column : schema.columns) {
    if (column.query < 0) continue;
    ++histories;
    EXPECT_EQ(column.name, "clicks__item");
    EXPECT_EQ(schema.columns[static_cast<size_t>(column.query)].name, "item");
    EXPECT_EQ(schema.columns[static_cast<size_t>(column.query)].domain, column.domain);
  }
  EXPECT_EQ(histories, 1u);
}

TEST_F(PipelineSynth, HashedIdsDoNotCollide) {
  for (const int64_t divisor : {1, 10}) {
    const PipelineSchema schema = schema_for(parsed(computed_pipeline()), divisor);
    const auto user =
        std::find_if(schema.columns.begin(), schema.columns.end(),
                     [](const PipelineColumn& column) { return column.name == "user"; });
    ASSERT_NE(user, schema.columns.end());
    const PipelineDomain& users = schema.domains[user->domain];
    ASSERT_EQ(users.words.size(), 500u / 5 / divisor);
    for (const uint64_t rows : {500ul, 500ul / divisor}) {
      std::set<uint64_t> buckets;
      for (const std::string& word : users.words) buckets.insert(fg_hash(word) % rows);
      EXPECT_EQ(buckets.size(), users.words.size()) << rows;
    }
  }
}

TEST_F(PipelineSynth, ClassesAndNumbers) {
  const config::PipelineConfig classes =
      parsed(single_pipeline("softmax_cross_entropy", "accuracy", 4));
  const PipelineSynthResult of_classes = write(classes, "classes", 2000);
  EXPECT_GT(best(of_classes, "accuracy"), 0.3);
  EXPECT_EQ(read(classes, "classes"), 2000);
  config::PipelineConfig top = classes;
  top.mutable_model_config()->mutable_metrics(0)->mutable_accuracy()->set_top_k(3);
  EXPECT_GT(best(write(top, "top", 2000), "accuracy"), best(of_classes, "accuracy") + 0.2);
  const config::PipelineConfig numbers =
      parsed(single_pipeline("l2_loss", "mean_squared_error", 1));
  const PipelineSynthResult of_numbers = write(numbers, "numbers", 2000);
  EXPECT_NEAR(best(of_numbers, "mean_squared_error"), PipelineTruth::kNoise * PipelineTruth::kNoise,
              0.03);
  EXPECT_EQ(read(numbers, "numbers"), 2000);
}

TEST_F(PipelineSynth, LabelsOfALossThatOrdersRowsAreNotNegative) {
  config::PipelineConfig config = parsed(single_pipeline("l2_loss", "mean_squared_error", 1));
  config::LossConfig& loss = *config.mutable_model_config()->mutable_losses(0);
  loss.mutable_lambdarank_loss()->set_session_name("a");
  for (const PipelineLabel& label : schema_for(config, 1).labels)
    EXPECT_EQ(label.kind, LabelKind::kBinary);
}

TEST_F(PipelineSynth, FewerIdsThanTheTablesHaveRows) {
  const PipelineSchema schema = schema_for(parsed(encoded_pipeline()), 10);
  EXPECT_EQ(schema.domains[schema.columns[0].domain].values, 50);
}

TEST_F(PipelineSynth, ALabelThatIsAlsoAFeatureIsOneColumn) {
  const config::PipelineConfig config = parsed(R"(
  data_config { with_header: true fg_mode: FG_DAG label_fields: "clk" label_fields: "scene" }
  feature_configs { id_feature { feature_name: "user" hash_bucket_size: 50 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "scene" hash_bucket_size: 50 embedding_dim: 4 } }
  model_config {
    feature_groups { group_name: "all" feature_names: "user" feature_names: "scene" }
    mmoe { expert_mlp { hidden_units: 8 } num_expert: 2
      task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: 8 }
        task_space_indicator_label: "scene" in_task_space_weight: 1 out_task_space_weight: 0
        losses { binary_cross_entropy {} } metrics { auc {} } } } })");
  write(config, "data", 100);
  EXPECT_EQ(read(config, "data"), 100);
  const std::string written = text("data/train/part-00000.csv");
  EXPECT_EQ(written.substr(0, written.find('\n')), "clk,user,scene");
}

TEST_F(PipelineSynth, ItemsOfATreeAreItsLeaves) {
  const auto pipeline = [](int buckets) {
    return cat(R"(
  data_config { with_header: true fg_mode: FG_DAG label_fields: "clk" tdm_sampler {
    item_input_path: "n" edge_input_path: "e" attr_fields: "cate" item_id_field: "item"
    attr_delimiter: "," layer_num_sample: [0, 1, 2, 3, 4] } }
  feature_configs { id_feature { feature_name: "item" num_buckets: )",
               buckets, R"( embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "cate" hash_bucket_size: 50 embedding_dim: 4 } }
  feature_configs { sequence_id_feature { feature_name: "seq" num_buckets: )",
               buckets, R"( embedding_dim: 4 sequence_length: 5 sequence_delim: "|" } }
  model_config {
    feature_groups { group_name: "seq" group_type: SEQUENCE feature_names: "seq"
                     feature_names: "item" }
    feature_groups { group_name: "rest" feature_names: "cate" }
    tdm { multiwindow_din { windows_len: 5 attn_mlp { hidden_units: 8 } }
          final { hidden_units: 8 } }
    num_class: 2 losses { softmax_cross_entropy {} } metrics { auc {} } })");
  };
  const config::PipelineConfig config = parsed(pipeline(40));  // 13 items and 25 nodes of 5 levels
  write(config, "data", 100);
  EXPECT_EQ(read(config, "data"), 100 * (1 + 3 + 10));
  const std::string nodes = text("data/node_table.txt");
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), '\n'), 2 + 1 + 2 + 4 + 8 + 13);
  EXPECT_THAT([&] { write(parsed(pipeline(20)), "few", 100); },
              ThrowsMessage<Error>(HasSubstr("\"item\" has 20 buckets, which are too few")));
}

// Configurations of a TorchEasyRec checkout, where there is one.
TEST_F(PipelineSynth, FitsThePipelinesOfTorchEasyRec) {
  const char* root = std::getenv("EMBLEM_TORCHEASYREC");
  if (root == nullptr) GTEST_SKIP() << "needs EMBLEM_TORCHEASYREC";
  int written = 0;
  for (const auto& file : fs::recursive_directory_iterator(root)) {
    if (file.path().extension() != ".config") continue;
    config::PipelineConfig config;
    try {
      config = load_pipeline(file.path().string());
      check_pipeline(config);
    } catch (const Error&) {
      continue;  // models that are not supported
    }
    const std::string name = cat("data", written++);
    SCOPED_TRACE(file.path().string());
    write(config, name, 40);
    EXPECT_EQ(read(config, name), rows_with_samples(config.data_config(), 40));
  }
  EXPECT_GT(written, 0);
}

}  // namespace
}  // namespace emblem
