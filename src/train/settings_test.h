// train/settings_test.h - pipelines that together have every message of the configuration, for
// settings_test.cc.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/text.h"

namespace emblem {

struct SettingsBase {
  std::string name, text;
  bool walks_all = false;  // else the model alone: the rest is as in others
};

inline std::string settings_start(const std::string& train = "") {
  return cat(R"(
  train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } }
    dense_optimizer { adam_optimizer { lr: 0.01 } } num_epochs: 2 eval_steps: 2
    save_checkpoints_steps: 3 log_step_count_steps: 2 )",
             train, R"( }
  data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 16 num_workers: 1
    label_fields: ["clk", "buy"] }
  feature_configs { id_feature { feature_name: "user" hash_bucket_size: 50 embedding_dim: 4 } }
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

constexpr char kComputedTraining[] = R"(
    grad_clipping { clipping_type: "norm" max_gradient: 1 enable_global_grad_clip: true }
    regularization { embedding_l2: 0.01 } )";

// Features of every kind, in one tower.
constexpr char kComputedFeatures[] = R"text(
  feature_configs { combo_feature { feature_name: "combo" expression: "user:user"
    expression: "item:color" hash_bucket_size: 100 embedding_dim: 4 } }
  feature_configs { lookup_feature { feature_name: "lookup" map: "user:by_color" key: "item:color" } }
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
        "lookup", "match", "expr", "overlap", "dot", "mask", "combine"]
      sequence_groups { group_name: "clicks" feature_names: ["user", "clicks__user"] }
      sequence_groups { group_name: "colors" feature_names: ["color", "colors"] }
      sequence_encoders { din_encoder { input: "clicks" attn_mlp { hidden_units: 4 } } }
      sequence_encoders { din_encoder { input: "colors" attn_mlp { hidden_units: 4 } } } }
    multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
    losses { binary_cross_entropy {} } metrics { auc {} } })text";

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
  const std::string wide = R"(feature_groups { group_name: "wide" feature_names: ["user", "color"] group_type: WIDE }
      feature_groups { group_name: "deep" feature_names: ["user", "color", "count"] })";
  const std::string parts = R"(feature_groups { group_name: "dense" feature_names: "count" }
      feature_groups { group_name: "sparse" feature_names: ["user", "color", "item"] })";
  const std::string towers = kSettingsTowers;
  return {
      {"computed", cat(settings_start(kComputedTraining), kComputedFeatures), true},
      settings_of("multi_tower", all, "towers { input: 'all' mlp { hidden_units: 4 } } final { hidden_units: 4 }"),
      settings_of("dlrm", parts, "dense_mlp { hidden_units: [4, 4] } final { hidden_units: 4 }"),
      settings_of("deepfm", wide + R"(feature_groups { group_name: "fm" feature_names: ["user", "color"] })",
                  "deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of("wide_and_deep", wide, "deep { hidden_units: 4 }"),
      settings_of("xdeepfm", wide, "cin { cin_layer_size: [4] } deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of("dcn_v1", all, "cross { cross_num: 2 } deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of("dcn_v2", all, "cross { cross_num: 2 low_rank: 3 } deep { hidden_units: 4 } final { hidden_units: 4 }"),
      settings_of("mask_net", all, "mask_net_module { n_mask_blocks: 2 mask_block { reduction_ratio: 1 hidden_dim: 4 } "
                  "top_mlp { hidden_units: 4 } use_parallel: true }"),
      settings_of("wukong", parts, "dense_mlp { hidden_units: [4, 4] } wukong_layers { lcb_feature_num: 4 "
                  "fmb_feature_num: 4 compressed_feature_num: 4 feature_num_mlp { hidden_units: 4 } } final { hidden_units: 4 }"),
      settings_of("multi_tower_din", all + sequence, "towers { input: 'all' mlp { hidden_units: 4 } } "
                  "din_towers { input: 'clicks' attn_mlp { hidden_units: 4 } } final { hidden_units: 4 }"),
      settings_of("mmoe", encoded, "expert_mlp { hidden_units: 4 } num_expert: 2 " + towers),
      settings_of("ple", all, "extraction_networks { network_name: 'first' expert_num_per_task: 2 share_num: 2 "
                  "task_expert_net { hidden_units: 4 } share_expert_net { hidden_units: 4 } } " + towers),
      settings_of("dbmtl", all, "bottom_mlp { hidden_units: 4 } " + towers),
      settings_of("pepnet", all, "epnet_hidden_unit: 4 ppnet_hidden_units: 4 " + towers),
      settings_of("rocket_launching", all, "share_mlp { hidden_units: 4 } booster_mlp { hidden_units: [4, 4] } "
                  "light_mlp { hidden_units: 4 } feature_based_distillation: true"),
  };
}

inline const char* const kTexts[] = {"nonsense", "", "clk", "user", "item:color", "7"};

// Where data, models and results are: given by the test itself.
inline const std::set<std::string> kPlaces = {
    "PipelineConfig.train_input_path", "PipelineConfig.eval_input_path", "PipelineConfig.model_dir"};

// Fields that these pipelines do not show: because other tests do (ranks, streams, stores, GPUs), because
// two settings have to change together, or because nothing says yet that they have no effect. A new
// field does not belong here: let a pipeline show it, or refuse or mention it.
inline constexpr char kNotShown[] = R"(
Accuracy: top_k
AutoDisEmbedding: keep_prob num_channels temperature
BayesTaskTower: pareto_min_loss_weight relation_mlp
BoolMaskFeature: asset_dir default_bucketize_value dynamicemb embedding_constraints
BoolMaskFeature: fg_encoded_default_value sequence_delim sequence_fields sequence_length use_mask zch
CombineFeature: autodis embedding_constraints fg_encoded_default_value mlp normalizer sequence_delim
CombineFeature: sequence_fields sequence_length use_mask
ComboFeature: asset_dir default_bucketize_value default_value dynamicemb embedding_constraints
ComboFeature: fg_encoded_default_value sequence_delim sequence_fields sequence_length use_mask
ComboFeature: value_dim zch
CosineAnnealingLR: by_epoch min_learning_rate warmup_learning_rate warmup_size
CosineAnnealingWarmRestartsLR: T_mult by_epoch min_learning_rate warmup_learning_rate warmup_size
DBMTL: gate_mlp
DCNV2: backbone
DINEncoder: name
DNN: deep
DataConfig: cache_bytes cache_dir column_types direct_reads download_threads endpoint filters
DataConfig: max_bad_rows num_dense num_sparse out_of_range_ids part_bytes shuffle_buffer_size
DataConfig: stream_format
DenseOptimizer: constant_learning_rate
DistanceLFU_EvictionPolicy: decay_exponent
DynamicEmbFrequencyAdmissionStrategy: counter_bucket_capacity counter_capacity initializer_args threshold
DynamicEmbInitializerArgs: lower mean mode std_dev upper value
DynamicEmbedding: eval_initializer_args frequency_admission_strategy init_capacity_per_rank
DynamicEmbedding: initializer_args
EarlyStopping: higher_is_better
EvalConfig: num_steps
ExponentialDecayLR: by_epoch decay_factor min_learning_rate staircase warmup_learning_rate warmup_size
ExportConfig: mixed_precision use_dense_ema
ExprFeature: autodis embedding_constraints fg_encoded_default_value fill_missing init_fn mlp
ExprFeature: sequence_delim sequence_fields sequence_length trainable use_mask
FeatureConfig: custom_feature sequence_custom_feature
Field: input_type
FusedAdadeltaOptimizer: gradient_clipping max_gradient
FusedAdagradOptimizer: gradient_clipping max_gradient
FusedAdamOptimizer: gradient_clipping max_gradient
FusedLAMBOptimizer: beta1 beta2 gradient_clipping lr max_gradient weight_decay
FusedLarsSGDOptimizer: gradient_clipping lr max_gradient momentum weight_decay
FusedPartialRowWiseAdamOptimizer: gradient_clipping max_gradient
FusedPartialRowWiseLAMBOptimizer: beta1 beta2 gradient_clipping lr max_gradient weight_decay
FusedRMSpropOptimizer: gradient_clipping max_gradient
FusedRowWiseAdagradOptimizer: gradient_clipping max_gradient weight_decay_mode
FusedSGDOptimizer: gradient_clipping max_gradient
GradClipping: enable_global_grad_clip
GradScaler: growth_interval
IdFeature: asset_dir embedding_constraints fg_encoded_default_value use_mask value_dim
JRCLoss: alpha session_name
L2Loss: mean
KvDotProduct: autodis embedding_constraints fg_encoded_default_value init_fn mlp sequence_delim
KvDotProduct: sequence_fields sequence_length trainable use_mask
LRU_EvictionPolicy: decay_exponent
LookupFeature: asset_dir autodis default_bucketize_value dynamicemb embedding_constraints
LookupFeature: fg_encoded_default_value init_fn mlp need_discrete sequence_delim sequence_fields
LookupFeature: sequence_length trainable use_mask value_separator zch
MMoE: gate_mlp
ManualStepLR: by_epoch warmup
MatchFeature: asset_dir autodis default_bucketize_value dynamicemb embedding_constraints
MatchFeature: fg_encoded_default_value mlp need_discrete normalizer sequence_delim sequence_fields
MatchFeature: sequence_length use_mask value_dim zch
MultiWindowDINEncoder: attn_mlp name windows_len
MulticlassAUC: average thresholds
OverlapFeature: autodis embedding_constraints fg_encoded_default_value init_fn mlp sequence_delim
OverlapFeature: sequence_fields sequence_length trainable use_mask
PEPNet: epnet_gamma ppnet_activation ppnet_dropout_ratio ppnet_gamma
PartOptimizer: constant_learning_rate cosine_annealing_learning_rate
PartOptimizer: cosine_annealing_warm_restarts_learning_rate exponential_decay_learning_rate
PartOptimizer: manual_step_learning_rate reduce_on_plateau_learning_rate regex_pattern
PartOptimizer: warmup_polynomial_decay_learning_rate
PipelineConfig: eval_config export_config
PoolingEncoder: name
RawFeature: autodis embedding_constraints fg_encoded_default_value mlp separator sequence_delim
RawFeature: sequence_fields sequence_length use_mask
RecallAtK: top_k
ReduceOnPlateauLR: higher_is_better
RocketLaunching: feature_based_distillation
SelfAttentionEncoder: name
SeqFeatureConfig: bool_mask_feature combine_feature combo_feature expr_feature kv_dot_product
SeqFeatureConfig: lookup_feature match_feature overlap_feature tokenize_feature
SimpleAttention: name
SoftmaxCrossEntropy: label_smoothing
SparseOptimizer: constant_learning_rate
TaskTower: pareto_min_loss_weight
TextNormalizer: max_length norm_options stop_char_file
TokenizeFeature: asset_dir data_type default_value embedding_constraints embedding_dim embedding_name
TokenizeFeature: expression fg_encoded_default_value init_fn pooling sequence_delim sequence_fields
TokenizeFeature: sequence_length stub_type text_normalizer tokenizer_type tokens_as_sequence
TokenizeFeature: trainable use_mask vocab_file
TrainConfig: deterministic device_bytes global_embedding_constraints grad_scaler keep_delta_max
TrainConfig: num_threads plan_path progressive_eval_rows stochastic_rounding use_tensorboard
TrainedColumn: input_name input_type kind spelling
WarmupPolynomialDecayLR: decay_size end_learning_rate power warmup_size
XAUC: sample_ratio
ZeroCollisionHash: distance_lfu eviction_interval lfu lru threshold_filtering_func zch_size
)";

}  // namespace emblem
