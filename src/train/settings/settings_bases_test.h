// train/settings/settings_bases_test.h - pipelines that together have every message of the
// configuration, for settings_test.cc.
#pragma once

#include <string>
#include <vector>

#include "emblem/error.h"
#include "train/settings/settings_sequences_test.h"

namespace emblem {

struct SettingsBase {
  std::string name, text;
  // Fields of PipelineConfig that are walked through; others are as in other pipelines.
  std::vector<std::string> parts = {"model_config"};
  // CSV only: some fields of the data are empty, and one is not a number.
  bool has_gaps = false;
};

constexpr char kShortTraining[] = R"(
    sparse_optimizer { adagrad_optimizer { lr: 0.1 } } dense_optimizer { adam_optimizer { lr: 0.01 } }
    num_epochs: 1 save_checkpoints_steps: 0 log_step_count_steps: 2 )";

inline std::string settings_start(const std::string& train = kShortTraining,
                                  const std::string& data = "") {
  return cat("train_config { ", train, R"( }
  data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 16 num_workers: 1
    label_fields: ["clk", "buy"] max_bad_rows: 4 )",
             data, R"( }
  feature_configs { id_feature { feature_name: "user" hash_bucket_size: 50 embedding_dim: 4 value_dim: 0 } }
  feature_configs { id_feature { feature_name: "color" vocab_list: ["red", "green", "blue"]
    embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "item" embedding_dim: 4
    dynamicemb { max_capacity: 1000 score_strategy: "LFU" } } }
  feature_configs { raw_feature { feature_name: "count" normalizer: "method=log1p" } }
  feature_configs { raw_feature { feature_name: "price" boundaries: [1, 5, 50] embedding_dim: 4 } }
  feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 8 sequence_delim: ";"
    features { id_feature { feature_name: "user" hash_bucket_size: 50 embedding_dim: 4 } }
    features { raw_feature { feature_name: "time" } } } }
)");
}

constexpr char kSettingsTowers[] = R"(
      task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: 4 }
        losses { binary_cross_entropy {} } metrics { auc {} } metrics { grouped_auc { grouping_key: "user" } } }
      task_towers { tower_name: "cvr" label_name: "buy" mlp { hidden_units: 4 }
        task_space_indicator_label: "clk" in_task_space_weight: 1 out_task_space_weight: 0
        losses { binary_cross_entropy {} } metrics { auc {} } } )";

constexpr char kLongTraining[] = R"(
    sparse_optimizer { adagrad_optimizer { lr: 0.1 gradient_clipping: true max_gradient: 0.01 }
      exponential_decay_learning_rate { decay_size: 2 warmup_size: 2 warmup_learning_rate: 0.001 } }
    dense_optimizer { adam_optimizer { lr: 0.01 } exponential_decay_learning_rate { decay_size: 2 }
      ema { decay: 0.9 } }
    num_epochs: 2 eval_steps: 2 save_checkpoints_steps: 3 log_step_count_steps: 2
    delta_steps: 1 keep_delta_max: 2
    grad_clipping { clipping_type: "norm" max_gradient: 1 enable_global_grad_clip: true }
    regularization { embedding_l2: 0.01 } )";

// Features of every kind, in one tower.
constexpr char kComputedFeatures[] = R"text(
  feature_configs { combo_feature { feature_name: "combo" expression: "user:user"
    expression: "item:color" hash_bucket_size: 100 embedding_dim: 4 data_type: "BF16" } }
  feature_configs { lookup_feature { feature_name: "lookup" map: "user:by_user" key: "user:user" } }
  feature_configs { match_feature { feature_name: "sum" nested_map: "user:counts"
    pkey: "item:color" skey: "ALL" } }
  feature_configs { match_feature { feature_name: "match" nested_map: "user:nested"
    pkey: "item:color" skey: "item:brand" num_buckets: 5 embedding_dim: 4 } }
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
  model_config {
    feature_groups { group_name: "all" feature_names: ["user", "color", "item", "count", "price", "combo",
        "lookup", "sum", "match", "expr", "overlap", "dot", "mask", "combine"]
      sequence_groups { group_name: "clicks" feature_names: ["user", "clicks__user"] }
      sequence_groups { group_name: "colors" feature_names: ["color", "colors"] }
      sequence_encoders { din_encoder { input: "clicks" attn_mlp { hidden_units: 4 } } }
      sequence_encoders { din_encoder { input: "colors" attn_mlp { hidden_units: 4 } } } }
    multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
    losses { binary_cross_entropy {} } metrics { auc {} } })text";

// Every way in which values become rows of tables that grow, and what numbers become.
inline constexpr char kTableFeatures[] = R"text(
  feature_configs { combo_feature { feature_name: "combo" expression: "user:user"
    expression: "item:color" embedding_dim: 4 zch { zch_size: 30 lfu {} } } }
  feature_configs { lookup_feature { feature_name: "lookup" map: "user:by_color" key: "item:color"
    embedding_dim: 4 zch { zch_size: 30 lru {} } } }
  feature_configs { match_feature { feature_name: "match" nested_map: "user:nested"
    pkey: "item:color" skey: "ALL" embedding_dim: 4
    dynamicemb { max_capacity: 30 initializer_args { mode: "uniform" lower: -0.1 upper: 0.1 }
      eval_initializer_args { mode: "constant" value: 0.5 } } } }
  feature_configs { bool_mask_feature { feature_name: "mask" expression: "user:ids"
    expression: "user:valid" separator: "," embedding_dim: 4
    dynamicemb { max_capacity: 100 initializer_args { mode: "normal" mean: 0.1 std_dev: 0.1 }
      frequency_admission_strategy { threshold: 3 } } } }
  feature_configs { raw_feature { feature_name: "auto" embedding_dim: 4 autodis { num_channels: 3 } } }
  feature_configs { raw_feature { feature_name: "many" embedding_dim: 4 mlp {} value_dim: 2 separator: "|" } }
  feature_configs { lookup_feature { feature_name: "pair" map: "user:pairs" key: "item:color"
    value_dim: 2 value_separator: "|" } }
  model_config {
    feature_groups { group_name: "all" feature_names: ["user", "color", "item", "count", "price", "combo",
        "lookup", "match", "mask", "auto", "many", "pair"] }
    multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
    losses { binary_cross_entropy {} } metrics { auc {} } })text";

// Columns that hold ids and numbers of rows already.
inline constexpr char kEncoded[] = R"text(
  train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } }
    dense_optimizer { adam_optimizer { lr: 0.01 } } num_epochs: 2 }
  data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_NONE batch_size: 16 num_workers: 1
    label_fields: "clk" max_bad_rows: 40 out_of_range_ids: ROW_0 }
  feature_configs { id_feature { feature_name: "user" num_buckets: 50 embedding_dim: 4 value_dim: 0 } }
  feature_configs { raw_feature { feature_name: "count" fg_encoded_default_value: "1" } }
  feature_configs { combo_feature { feature_name: "combo" expression: "user:user" expression: "item:item"
    hash_bucket_size: 50 embedding_dim: 4 } }
  feature_configs { lookup_feature { feature_name: "lookup" map: "user:by_color" key: "item:color"
    num_buckets: 10 embedding_dim: 4 } }
  feature_configs { match_feature { feature_name: "match" nested_map: "user:nested"
    pkey: "item:color" skey: "item:brand" num_buckets: 5 embedding_dim: 4 } }
  feature_configs { expr_feature { feature_name: "expr" expression: "a + b" variables: "user:a"
    variables: "item:b" boundaries: [1, 5] embedding_dim: 4 } }
  feature_configs { overlap_feature { feature_name: "overlap" query: "user:query" title: "item:title"
    method: "query_common_ratio" fg_encoded_default_value: "1" } }
  feature_configs { kv_dot_product { feature_name: "dot" query: "user:likes" document: "item:has"
    fg_encoded_default_value: "1" } }
  feature_configs { bool_mask_feature { feature_name: "mask" expression: "user:ids" expression: "user:valid"
    num_buckets: 30 embedding_dim: 4 } }
  feature_configs { combine_feature { feature_name: "combine" expression: "user:event"
    num_buckets: 10 embedding_dim: 4 } }
  feature_configs { tokenize_feature { feature_name: "title" expression: "item:name"
    vocab_file: "FOLDER/tokens.json" embedding_dim: 4 } }
  model_config {
    feature_groups { group_name: "all" feature_names: ["user", "count", "combo", "lookup", "match", "expr",
      "overlap", "dot", "mask", "combine", "title"] }
    multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
    losses { binary_cross_entropy {} } metrics { auc {} } })text";

// A matching model over the features of settings_start().
inline SettingsBase matching_settings(const std::string& name, const std::string& data = "") {
  return {name,
          cat(settings_start(kShortTraining, data), R"(model_config {
      feature_groups { group_name: "users" feature_names: ["user", "count"] }
      feature_groups { group_name: "items" feature_names: ["item", "color", "price"] } )",
              name, R"( { user_tower { input: "users" mlp { hidden_units: 4 } }
        item_tower { input: "items" mlp { hidden_units: 4 } } output_dim: 4 similarity: COSINE
        temperature: 0.5 in_batch_negative: true }
      losses { softmax_cross_entropy {} } metrics { recall_at_k {} } })"),
          {"data_config", "model_config"}};
}

// The same with a sampler that reads edges of users.
inline SettingsBase edge_settings(const std::string& sampler, const std::string& edges) {
  SettingsBase base = matching_settings(
      "dssm_v2", cat(sampler, R"( { item_input_path: "FOLDER/data/items.txt" num_sample: 3
          user_input_path: "FOLDER/data/users.txt" num_eval_sample: 5 item_id_field: "item"
          attr_fields: ["item", "color", "price"] user_id_field: "user" )",
                     edges, " }"));
  const std::string several = " value_dim: 0";  // of a user: ids that no edge begins with
  base.text.erase(base.text.find(several), several.size());
  base.name = sampler;
  base.parts = {"data_config"};
  return base;
}

inline SettingsBase augmented_settings() {
  return {"dat", cat(settings_start(), R"(model_config {
      feature_groups { group_name: "users" feature_names: "count" }
      feature_groups { group_name: "user_twins" feature_names: "user" }
      feature_groups { group_name: "items" feature_names: ["item", "price"] }
      feature_groups { group_name: "item_twins" feature_names: "color" }
      dat { user_tower { input: "users" augment_input: "user_twins" mlp { hidden_units: 4 } }
        item_tower { input: "items" augment_input: "item_twins" mlp { hidden_units: 4 } }
        output_dim: 4 temperature: 0.5 in_batch_negative: true }
      losses { softmax_cross_entropy {} } metrics { recall_at_k {} } })")};
}

inline SettingsBase interests_settings() {
  return {"mind", cat(settings_start(), R"(model_config {
      feature_groups { group_name: "users" feature_names: ["user", "count"] }
      feature_groups { group_name: "clicks" group_type: SEQUENCE
        feature_names: ["clicks__user", "clicks__time"] }
      feature_groups { group_name: "items" feature_names: ["item", "color", "price"] }
      mind { user_tower { input: "users" history_input: "clicks" user_mlp { hidden_units: [8, 4] }
          hist_seq_mlp { hidden_units: [8, 4] }
          capsule_config { max_k: 3 max_seq_len: 3 high_dim: 4 routing_logits_scale: 2 }
          concat_mlp { hidden_units: 8 } }
        item_tower { input: "items" mlp { hidden_units: 4 } } output_dim: 4 temperature: 0.5
        in_batch_negative: true }
      losses { softmax_cross_entropy {} } metrics { recall_at_k {} } })")};
}

inline SettingsBase tree_settings() {
  return {"tdm",
          cat(settings_start(kShortTraining, R"(tdm_sampler {
      item_input_path: "FOLDER/data/node_table.txt" edge_input_path: "FOLDER/data/edge_table.txt"
      attr_fields: ["color", "price"] item_id_field: "item" attr_delimiter: ","
      layer_num_sample: [0, 1, 1, 2] remain_ratio: 0.5 })"),
              R"(model_config {
      feature_groups { group_name: "clicks" group_type: SEQUENCE
        feature_names: ["item", "clicks__user", "clicks__time"] }
      feature_groups { group_name: "others" feature_names: ["user", "count", "color", "price"] }
      tdm { multiwindow_din { windows_len: [1, 2] attn_mlp { hidden_units: 4 } }
        final { hidden_units: 4 } }
      num_class: 2 losses { softmax_cross_entropy {} } metrics { auc {} } })"),
          {"data_config", "model_config"}};
}

// A model over the features of settings_start().
inline SettingsBase settings_of(const std::string& name, const std::string& groups,
                                const std::string& model) {
  return {name, cat(settings_start(), "model_config { ", groups, " ", name, " { ", model, " } ",
                    model.find("task_towers") == std::string::npos
                        ? "losses { binary_cross_entropy {} } metrics { auc {} } }"
                        : "}")};
}

inline std::vector<SettingsBase> settings_bases() {
  const std::string all =
      R"(feature_groups { group_name: "all" feature_names: ["user", "color", "item", "count", "price"] })";
  const std::string sequence = R"(feature_groups { group_name: "clicks" group_type: SEQUENCE
      feature_names: ["user", "clicks__user", "clicks__time"] })";
  const std::string encoded = R"(feature_groups { group_name: "all"
      feature_names: ["user", "color", "item", "count", "price"]
      sequence_groups { group_name: "clicks" feature_names: ["user", "clicks__user"] }
      sequence_encoders { din_encoder { attn_mlp { hidden_units: 4 } } } })";
  const std::string wide =
      R"(feature_groups { group_name: "wide" feature_names: ["user", "color"] group_type: WIDE }
      feature_groups { group_name: "deep" feature_names: ["user", "color", "count"] })";
  const std::string parts = R"(feature_groups { group_name: "dense" feature_names: "count" }
      feature_groups { group_name: "sparse" feature_names: ["user", "color", "item"] })";
  const std::string towers = kSettingsTowers;
  return {
      {"sequences",
       cat(settings_start(), kSequenceFeatures),
       {"feature_configs", "model_config"},
       true},
      {"lone_sequences", cat(settings_start(), kLoneSequences), {"feature_configs"}, true},
      {"tables", cat(settings_start(), kTableFeatures), {"feature_configs"}, true},
      {"encoded", kEncoded, {"data_config", "feature_configs"}, true},
      {"computed",
       cat(settings_start(kLongTraining, "shuffle: true"), kComputedFeatures),
       {"train_config", "eval_config", "export_config", "data_config", "feature_configs",
        "model_config", "semantics_version"},
       true},
      {"training",
       settings_of("multi_tower", all, "towers { input: 'all' mlp { hidden_units: 4 } }").text,
       {"train_config"}},
      settings_of("multi_tower", all,
                  "towers { input: 'all' mlp { hidden_units: 4 } } final { hidden_units: 4 }"),
      settings_of("dlrm", parts, "dense_mlp { hidden_units: [4, 4] } final { hidden_units: 4 }"),
      settings_of("deepfm",
                  wide + R"(feature_groups { group_name: "fm" feature_names: ["user", "color"] })",
                  "deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of("wide_and_deep", wide, "deep { hidden_units: 4 }"),
      settings_of("xdeepfm", wide,
                  "cin { cin_layer_size: [4] } deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of("dcn_v1", all,
                  "cross { cross_num: 2 } deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of(
          "dcn_v2", all,
          "cross { cross_num: 2 low_rank: 3 } deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of(
          "mask_net", all,
          "mask_net_module { n_mask_blocks: 2 mask_block { reduction_ratio: 1 hidden_dim: 4 } "
          "top_mlp { hidden_units: 4 } use_parallel: true }"),
      settings_of("wukong", parts,
                  "dense_mlp { hidden_units: [4, 4] } wukong_layers { lcb_feature_num: 4 "
                  "fmb_feature_num: 4 compressed_feature_num: 4 feature_num_mlp { hidden_units: 4 "
                  "} } final { hidden_units: 4 }"),
      settings_of(
          "multi_tower_din", all + sequence,
          "towers { input: 'all' mlp { hidden_units: 4 } } "
          "din_towers { input: 'clicks' attn_mlp { hidden_units: 4 } } final { hidden_units: 4 }"),
      {"classes", cat(settings_start(), "model_config { num_class: 3 ", all,
                      " multi_tower { towers { input: 'all' "
                      "mlp { hidden_units: 4 } } final { hidden_units: 4 } } losses { "
                      "softmax_cross_entropy {} } "
                      "metrics { multiclass_auc {} } metrics { accuracy {} } }")},
      {"sessions", cat(settings_start(), "model_config { num_class: 2 ", all,
                       " multi_tower { towers { input: 'all' "
                       "mlp { hidden_units: 4 } } final { hidden_units: 4 } } losses { jrc_loss { "
                       "session_name: 'user' } } "
                       "metrics { auc {} } }")},
      {"ranks", cat(settings_start(), "model_config { ", all,
                    " multi_tower { towers { input: 'all' "
                    "mlp { hidden_units: 4 } } final { hidden_units: 4 } } losses { "
                    "lambdarank_loss { session_name: 'user' } } "
                    "metrics { ndcg_at_k { grouping_key: 'user' } } }")},
      {"numbers", cat(settings_start(), "model_config { ", all,
                      " multi_tower { towers { input: 'all' "
                      "mlp { hidden_units: 4 } } final { hidden_units: 4 } } losses { l2_loss {} } "
                      "metrics { mean_squared_error {} } metrics { xauc {} } }")},
      settings_of(
          "mmoe", encoded,
          "expert_mlp { hidden_units: 4 } gate_mlp { hidden_units: 4 } num_expert: 2 " + towers),
      settings_of("ple", all,
                  "extraction_networks { network_name: 'first' expert_num_per_task: 2 share_num: 2 "
                  "task_expert_net { hidden_units: 4 } share_expert_net { hidden_units: 4 } } " +
                      towers),
      settings_of("dbmtl", all,
                  "bottom_mlp { hidden_units: 4 } expert_mlp { hidden_units: 4 } "
                  "gate_mlp { hidden_units: 4 } " +
                      towers.substr(0, towers.rfind('}')) +
                      "relation_tower_names: 'ctr' relation_mlp { hidden_units: 4 } }"),
      settings_of("pepnet", all + R"(feature_groups { group_name: "domain" feature_names: "color" }
                  feature_groups { group_name: "uia" feature_names: ["user", "item"] })",
                  "epnet_hidden_unit: 4 ppnet_hidden_units: 4 " + towers),
      settings_of("rocket_launching", all,
                  "share_mlp { hidden_units: 4 } booster_mlp { hidden_units: [4, 4] } "
                  "light_mlp { hidden_units: 4 } feature_based_distillation: true"),
      matching_settings("dssm"),
      matching_settings("dssm_v2", R"(negative_sampler { input_path: "FOLDER/data/items.txt"
          num_sample: 3 num_eval_sample: 5 attr_fields: ["item", "color", "price"]
          item_id_field: "item" })"),
      edge_settings("negative_sampler_v2",
                    R"(pos_edge_input_path: "FOLDER/data/positive_edges.txt")"),
      edge_settings("hard_negative_sampler", R"(num_hard_sample: 2
          hard_neg_edge_input_path: "FOLDER/data/hard_edges.txt")"),
      edge_settings("hard_negative_sampler_v2", R"(num_hard_sample: 2
          pos_edge_input_path: "FOLDER/data/positive_edges.txt"
          hard_neg_edge_input_path: "FOLDER/data/hard_edges.txt")"),
      augmented_settings(),
      interests_settings(),
      tree_settings(),
  };
}

}  // namespace emblem
