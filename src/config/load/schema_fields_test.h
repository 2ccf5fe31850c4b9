// config/load/schema_fields_test.h - the fields of TorchEasyRec's pipelines (54cac316, 2026-08-19),
// for schema_test.cc: "MESSAGE field#number:type", "*" for repeated ones; lines that start with a
// space continue a message.
#pragma once

namespace emblem {

inline constexpr const char* kTorchEasyRecFields = R"(
GradScaler init_scale#1:float growth_factor#2:float backoff_factor#3:float growth_interval#4:uint32
DeltaEmbeddingDumpConfig dump_interval_steps#1:uint32 output_dir#2:string file_prefix#3:string
  feature_store_config#4:FeatureStoreConfig dump_interval_minutes#5:uint32
  quant_type#6:DeltaEmbeddingQuantType
TrainConfig sparse_optimizer#1:SparseOptimizer dense_optimizer#2:DenseOptimizer num_steps#3:uint32
  num_epochs#4:uint32 save_checkpoints_steps#5:uint32 fine_tune_checkpoint#6:string
  fine_tune_ckpt_param_map#7:string log_step_count_steps#8:uint32 is_profiling#9:bool
  use_tensorboard#10:bool save_checkpoints_epochs#11:uint32 tensorboard_summaries#12:string*
  cudnn_allow_tf32#13:bool cuda_matmul_allow_tf32#14:bool
  global_embedding_constraints#15:ParameterConstraints mixed_precision#16:string
  grad_scaler#17:GradScaler gradient_accumulation_steps#18:uint32 grad_clipping#19:GradClipping
  keep_checkpoint_max#20:uint32 save_checkpoints_timestamp_interval#21:uint32
  save_checkpoints_timestamps#22:uint64* save_checkpoints_timestamp_quorum#23:float
  delta_embedding_dump_config#24:DeltaEmbeddingDumpConfig
EvalConfig num_steps#1:uint32 log_step_count_steps#2:uint32 use_dense_ema#3:bool
ExportConfig exporter_type#1:string best_exporter_metric#2:string metric_larger_is_better#3:bool
  mixed_precision#4:string cudnn_allow_tf32#5:bool cuda_matmul_allow_tf32#6:bool
  use_dense_ema#7:bool
DataConfig batch_size#1:uint32 dataset_type#2:DatasetType fg_encoded#3:bool
  fg_encoded_multival_sep#4:string label_fields#5:string* num_workers#6:uint32 pin_memory#7:bool
  input_fields#8:Field* delimiter#9:string with_header#10:bool eval_batch_size#11:uint32
  drop_remainder#12:bool fg_threads#13:uint32 is_orderby_partition#14:bool
  odps_data_quota_name#15:string sample_mask_prob#16:float negative_sample_mask_prob#17:float
  force_base_data_group#18:bool sample_weight_fields#19:string* fg_mode#20:FgMode shuffle#22:bool
  shuffle_buffer_size#23:uint32 odps_data_compression#24:string sample_cost_field#25:string
  batch_cost_size#26:uint64 input_fields_str#27:string in_order#28:bool
  negative_sampler#101:NegativeSampler negative_sampler_v2#102:NegativeSamplerV2
  hard_negative_sampler#103:HardNegativeSampler hard_negative_sampler_v2#104:HardNegativeSamplerV2
  tdm_sampler#105:TDMSampler
NegativeSampler input_path#1:string num_sample#2:uint32 attr_fields#3:string* item_id_field#4:string
  attr_delimiter#5:string num_eval_sample#6:uint32 field_delimiter#7:string item_id_delim#8:string
NegativeSamplerV2 user_input_path#1:string item_input_path#2:string pos_edge_input_path#3:string
  num_sample#4:uint32 attr_fields#5:string* item_id_field#6:string user_id_field#7:string
  attr_delimiter#8:string num_eval_sample#9:uint32 field_delimiter#10:string
HardNegativeSampler user_input_path#1:string item_input_path#2:string
  hard_neg_edge_input_path#3:string num_sample#4:uint32 num_hard_sample#5:uint32
  attr_fields#6:string* item_id_field#7:string user_id_field#8:string attr_delimiter#9:string
  num_eval_sample#10:uint32 field_delimiter#11:string
HardNegativeSamplerV2 user_input_path#1:string item_input_path#2:string pos_edge_input_path#3:string
  hard_neg_edge_input_path#4:string num_sample#5:uint32 num_hard_sample#6:uint32
  attr_fields#7:string* item_id_field#8:string user_id_field#9:string attr_delimiter#10:string
  num_eval_sample#11:uint32 field_delimiter#12:string
TDMSampler item_input_path#1:string edge_input_path#2:string predict_edge_input_path#3:string
  attr_fields#4:string* item_id_field#5:string layer_num_sample#6:uint32* attr_delimiter#7:string
  num_eval_sample#8:uint32 field_delimiter#9:string remain_ratio#10:float probability_type#11:string
ParameterConstraints sharding_types#1:string* compute_kernels#2:string*
LRU_EvictionPolicy decay_exponent#1:float
DistanceLFU_EvictionPolicy decay_exponent#1:float
ZeroCollisionHash zch_size#1:uint64 eviction_interval#2:uint32 lfu#101:LFU_EvictionPolicy
  lru#102:LRU_EvictionPolicy distance_lfu#103:DistanceLFU_EvictionPolicy
  threshold_filtering_func#3:string
AutoDisEmbedding num_channels#2:uint32 temperature#3:float keep_prob#4:float
DynamicEmbFrequencyAdmissionStrategy threshold#1:uint64 initializer_args#2:DynamicEmbInitializerArgs
  counter_capacity#3:uint64 counter_bucket_capacity#4:uint64
DynamicEmbedding initializer_args#1:DynamicEmbInitializerArgs
  eval_initializer_args#2:DynamicEmbInitializerArgs score_strategy#4:string max_capacity#5:uint64
  cache_load_factor#6:float init_capacity_per_rank#7:uint64 init_table#8:string
  bucket_capacity#9:uint64 frequency_admission_strategy#100:DynamicEmbFrequencyAdmissionStrategy
IdFeature feature_name#1:string expression#2:string embedding_name#3:string embedding_dim#4:uint32
  hash_bucket_size#5:uint64 num_buckets#6:uint64 vocab_list#7:string*
  vocab_dict#8:map<string,uint64> value_dim#9:uint32 pooling#10:string default_value#11:string
  separator#12:string weighted#13:bool init_fn#14:string use_mask#15:bool zch#16:ZeroCollisionHash
  vocab_file#17:string asset_dir#18:string dynamicemb#19:DynamicEmbedding
  fg_encoded_default_value#30:string default_bucketize_value#31:uint64 fg_value_type#32:string
  trainable#33:bool stub_type#34:bool data_type#35:string
  embedding_constraints#50:ParameterConstraints sequence_length#101:uint32 sequence_delim#102:string
  sequence_fields#103:string*
RawFeature feature_name#1:string expression#2:string embedding_name#3:string embedding_dim#4:uint32
  boundaries#5:float* value_dim#6:uint32 normalizer#7:string pooling#10:string
  default_value#11:string separator#12:string init_fn#13:string use_mask#14:bool
  fg_encoded_default_value#30:string trainable#33:bool stub_type#34:bool data_type#35:string
  autodis#40:AutoDisEmbedding mlp#41:MLPEmbedding embedding_constraints#50:ParameterConstraints
  sequence_length#101:uint32 sequence_delim#102:string sequence_fields#103:string*
ComboFeature feature_name#1:string expression#2:string* embedding_name#3:string
  embedding_dim#4:uint32 hash_bucket_size#5:uint64 vocab_list#7:string*
  vocab_dict#8:map<string,uint64> value_dim#9:uint32 pooling#10:string default_value#11:string
  separator#12:string init_fn#13:string use_mask#14:bool zch#15:ZeroCollisionHash
  vocab_file#16:string asset_dir#17:string dynamicemb#18:DynamicEmbedding
  fg_encoded_default_value#30:string default_bucketize_value#31:uint64 trainable#33:bool
  stub_type#34:bool data_type#35:string embedding_constraints#50:ParameterConstraints
  sequence_length#101:uint32 sequence_delim#102:string sequence_fields#103:string*
CombineFeature feature_name#1:string expression#2:string embedding_name#3:string
  embedding_dim#4:uint32 value_map#6:map<string,float> boundaries#7:float* num_buckets#8:uint64
  pooling#11:string default_value#12:string separator#13:string normalizer#14:string
  init_fn#15:string use_mask#16:bool combiner#22:string fg_encoded_default_value#30:string
  trainable#33:bool stub_type#34:bool data_type#35:string autodis#40:AutoDisEmbedding
  mlp#41:MLPEmbedding embedding_constraints#50:ParameterConstraints sequence_length#101:uint32
  sequence_delim#102:string sequence_fields#103:string*
LookupFeature feature_name#1:string map#2:string key#3:string embedding_name#4:string
  embedding_dim#5:uint32 boundaries#6:float* hash_bucket_size#7:uint64 num_buckets#8:uint64
  vocab_list#9:string* vocab_dict#10:map<string,uint64> pooling#11:string combiner#12:string
  default_value#13:string separator#14:string need_discrete#15:bool need_key#16:bool
  normalizer#17:string init_fn#18:string value_dim#19:uint32 value_separator#20:string
  use_mask#21:bool zch#22:ZeroCollisionHash vocab_file#23:string asset_dir#24:string
  dynamicemb#25:DynamicEmbedding fg_encoded_default_value#30:string
  default_bucketize_value#31:uint64 fg_value_type#32:string trainable#33:bool stub_type#34:bool
  data_type#35:string autodis#40:AutoDisEmbedding mlp#41:MLPEmbedding
  embedding_constraints#50:ParameterConstraints sequence_length#101:uint32 sequence_delim#102:string
  sequence_fields#103:string*
MatchFeature feature_name#1:string nested_map#2:string pkey#3:string skey#4:string
  embedding_name#5:string embedding_dim#6:uint32 boundaries#7:float* hash_bucket_size#8:uint64
  num_buckets#9:uint64 vocab_list#10:string* vocab_dict#11:map<string,uint64> pooling#12:string
  default_value#13:string separator#14:string need_discrete#15:bool show_pkey#16:bool
  show_skey#17:bool normalizer#18:string init_fn#19:string value_dim#20:uint32 use_mask#21:bool
  zch#22:ZeroCollisionHash vocab_file#23:string asset_dir#24:string dynamicemb#25:DynamicEmbedding
  fg_encoded_default_value#30:string default_bucketize_value#31:uint64 fg_value_type#32:string
  trainable#33:bool stub_type#34:bool data_type#35:string autodis#40:AutoDisEmbedding
  mlp#41:MLPEmbedding embedding_constraints#50:ParameterConstraints sequence_length#101:uint32
  sequence_delim#102:string sequence_fields#103:string*
ExprFeature feature_name#1:string expression#2:string variables#3:string* embedding_name#4:string
  embedding_dim#5:uint32 boundaries#6:float* separator#7:string fill_missing#8:float
  pooling#10:string default_value#11:string init_fn#12:string use_mask#13:bool value_dim#14:uint32
  fg_encoded_default_value#30:string trainable#33:bool stub_type#34:bool data_type#35:string
  autodis#40:AutoDisEmbedding mlp#41:MLPEmbedding embedding_constraints#50:ParameterConstraints
  sequence_length#101:uint32 sequence_delim#102:string sequence_fields#103:string*
OverlapFeature feature_name#1:string query#2:string title#3:string method#4:string
  embedding_name#5:string embedding_dim#6:uint32 boundaries#7:float* normalizer#8:string
  pooling#10:string separator#12:string init_fn#13:string use_mask#14:bool
  fg_encoded_default_value#30:string trainable#33:bool stub_type#34:bool data_type#35:string
  autodis#40:AutoDisEmbedding mlp#41:MLPEmbedding embedding_constraints#50:ParameterConstraints
  sequence_length#101:uint32 sequence_delim#102:string sequence_fields#103:string*
TextNormalizer max_length#1:uint32 stop_char_file#2:string norm_options#3:TextNormalizeOption*
TokenizeFeature feature_name#1:string expression#2:string embedding_name#3:string
  embedding_dim#4:uint32 text_normalizer#6:TextNormalizer vocab_file#7:string asset_dir#8:string
  pooling#10:string default_value#11:string tokenizer_type#12:string init_fn#14:string
  use_mask#15:bool fg_encoded_default_value#30:string trainable#33:bool stub_type#34:bool
  data_type#35:string embedding_constraints#50:ParameterConstraints sequence_length#101:uint32
  sequence_delim#102:string sequence_fields#103:string* tokens_as_sequence#104:bool
KvDotProduct feature_name#1:string query#2:string document#3:string embedding_name#4:string
  embedding_dim#5:uint32 boundaries#6:float* separator#7:string kv_delimiter#8:float
  normalizer#9:string pooling#10:string default_value#11:string init_fn#12:string use_mask#13:bool
  fg_encoded_default_value#30:string trainable#33:bool stub_type#34:bool data_type#35:string
  autodis#40:AutoDisEmbedding mlp#41:MLPEmbedding embedding_constraints#50:ParameterConstraints
  sequence_length#101:uint32 sequence_delim#102:string sequence_fields#103:string*
CustomFeature feature_name#1:string operator_name#2:string operator_lib_file#3:string
  operator_params#4:Struct is_op_thread_safe#5:bool expression#6:string* embedding_name#7:string
  embedding_dim#8:uint32 boundaries#9:float* hash_bucket_size#10:uint64 num_buckets#11:uint64
  vocab_list#12:string* vocab_dict#13:map<string,uint64> pooling#14:string default_value#15:string
  separator#16:string normalizer#17:string init_fn#18:string value_dim#19:uint32 use_mask#20:bool
  zch#21:ZeroCollisionHash vocab_file#22:string asset_dir#23:string dynamicemb#24:DynamicEmbedding
  fg_encoded_default_value#30:string default_bucketize_value#31:uint64 trainable#33:bool
  stub_type#34:bool data_type#35:string autodis#40:AutoDisEmbedding mlp#41:MLPEmbedding
  embedding_constraints#50:ParameterConstraints sequence_length#101:uint32 sequence_delim#102:string
  sequence_fields#103:string*
BoolMaskFeature feature_name#1:string expression#2:string* embedding_name#3:string
  embedding_dim#4:uint32 hash_bucket_size#5:uint64 num_buckets#6:uint64 vocab_list#7:string*
  vocab_dict#8:map<string,uint64> value_dim#9:uint32 pooling#10:string default_value#11:string
  separator#12:string init_fn#14:string use_mask#15:bool zch#16:ZeroCollisionHash
  vocab_file#17:string asset_dir#18:string dynamicemb#19:DynamicEmbedding
  fg_encoded_default_value#30:string default_bucketize_value#31:uint64 fg_value_type#32:string
  trainable#33:bool stub_type#34:bool data_type#35:string
  embedding_constraints#50:ParameterConstraints sequence_length#101:uint32 sequence_delim#102:string
  sequence_fields#103:string*
SequenceFeature sequence_name#1:string sequence_length#2:uint32 sequence_delim#3:string
  sequence_pk#4:string features#5:SeqFeatureConfig*
FeatureConfig id_feature#1:IdFeature raw_feature#2:RawFeature combo_feature#3:ComboFeature
  lookup_feature#4:LookupFeature match_feature#5:MatchFeature sequence_feature#6:SequenceFeature
  expr_feature#7:ExprFeature overlap_feature#8:OverlapFeature tokenize_feature#9:TokenizeFeature
  custom_feature#10:CustomFeature kv_dot_product#11:KvDotProduct
  bool_mask_feature#12:BoolMaskFeature combine_feature#13:CombineFeature
  sequence_id_feature#101:IdFeature sequence_raw_feature#102:RawFeature
  sequence_combo_feature#103:ComboFeature sequence_lookup_feature#104:LookupFeature
  sequence_match_feature#105:MatchFeature sequence_expr_feature#107:ExprFeature
  sequence_overlap_feature#108:OverlapFeature sequence_tokenize_feature#109:TokenizeFeature
  sequence_custom_feature#110:CustomFeature sequence_kv_dot_product#111:KvDotProduct
  sequence_bool_mask_feature#112:BoolMaskFeature sequence_combine_feature#113:CombineFeature
SeqFeatureConfig id_feature#1:IdFeature raw_feature#2:RawFeature combo_feature#3:ComboFeature
  lookup_feature#4:LookupFeature match_feature#5:MatchFeature expr_feature#7:ExprFeature
  overlap_feature#8:OverlapFeature tokenize_feature#9:TokenizeFeature
  custom_feature#10:CustomFeature kv_dot_product#11:KvDotProduct
  bool_mask_feature#12:BoolMaskFeature combine_feature#13:CombineFeature
SeqGroupConfig group_name#1:string feature_names#2:string* embedding_name_suffix#3:string
FeatureGroupConfig group_name#1:string feature_names#2:string* group_type#3:FeatureGroupType
  sequence_groups#4:SeqGroupConfig* sequence_encoders#5:SeqEncoderConfig*
  embedding_name_suffix#6:string
ModelConfig feature_groups#1:FeatureGroupConfig* dlrm#100:DLRM deepfm#101:DeepFM
  multi_tower#102:MultiTower multi_tower_din#103:MultiTowerDIN mask_net#104:MaskNet
  wide_and_deep#105:WideAndDeep dcn_v1#106:DCNV1 dcn_v2#107:DCNV2 xdeepfm#108:xDeepFM
  wukong#109:WuKong simple_multi_task#200:SimpleMultiTask mmoe#201:MMoE dbmtl#202:DBMTL ple#203:PLE
  dc2vr#204:DC2VR dlrm_hstu#205:DlrmHSTU pepnet#206:PEPNet ultra_hstu#207:UltraHSTU dssm#301:DSSM
  dssm_v2#302:DSSMV2 dat#303:DAT hstu_match#304:HSTUMatch mind#305:MIND tdm#400:TDM
  rocket_launching#500:RocketLaunching sid_rqvae#600:SidRqvae sid_rqkmeans#601:SidRqkmeans
  num_class#2:uint32 losses#3:LossConfig* metrics#4:MetricConfig* train_metrics#5:TrainMetricConfig*
  variational_dropout#11:VariationalDropout kernel#12:Kernel use_pareto_loss_weight#13:bool
DINEncoder name#1:string input#2:string attn_mlp#3:MLP max_seq_length#6:int32
SimpleAttention name#1:string input#2:string max_seq_length#6:int32
PoolingEncoder name#1:string input#2:string pooling_type#3:string max_seq_length#6:int32
SelfAttentionEncoder name#1:string input#2:string multihead_attn_dim#3:int32 num_heads#4:int32
  dropout#5:float max_seq_length#6:int32
MultiWindowDINEncoder name#1:string input#2:string attn_mlp#3:MLP windows_len#4:uint32*
SeqEncoderConfig din_encoder#1:DINEncoder simple_attention#2:SimpleAttention
  pooling_encoder#3:PoolingEncoder multi_window_din_encoder#4:MultiWindowDINEncoder
  self_attention_encoder#6:SelfAttentionEncoder
Tower input#1:string mlp#2:MLP
HSTUUserTower input#1:string hstu#2:HSTU max_seq_len#3:uint32
DINTower input#1:string attn_mlp#2:MLP
TaskTower tower_name#1:string label_name#2:string metrics#3:MetricConfig*
  train_metrics#20:TrainMetricConfig* losses#4:LossConfig* num_class#5:uint32 mlp#6:MLP
  weight#7:float sample_weight_name#8:string task_space_indicator_label#9:string
  in_task_space_weight#10:float out_task_space_weight#11:float pareto_min_loss_weight#12:float
BayesTaskTower tower_name#1:string label_name#2:string metrics#3:MetricConfig*
  train_metrics#20:TrainMetricConfig* losses#4:LossConfig* num_class#5:uint32 mlp#6:MLP
  weight#7:float relation_tower_names#8:string* relation_mlp#9:MLP sample_weight_name#10:string
  task_space_indicator_label#11:string in_task_space_weight#12:float out_task_space_weight#13:float
  pareto_min_loss_weight#14:float
InterventionTaskTower tower_name#1:string label_name#2:string metrics#3:MetricConfig*
  train_metrics#20:TrainMetricConfig* losses#4:LossConfig* num_class#5:uint32 mlp#6:MLP
  weight#7:float intervention_tower_names#8:string* low_rank_dim#9:uint32 dropout_ratio#10:float
  task_space_indicator_label#11:string in_task_space_weight#12:float out_task_space_weight#13:float
  pareto_min_loss_weight#14:float
FusionSubTaskConfig task_name#1:string label_name#2:string task_bitmask#3:uint64
  losses#4:LossConfig* num_class#5:uint32 metrics#6:MetricConfig* weight#7:float
  train_metrics#20:TrainMetricConfig*
FusionMTLTower mlp#1:MLP task_configs#2:FusionSubTaskConfig*
MultiWindowDINTower windows_len#1:uint32* attn_mlp#2:MLP
DATTower input#1:string augment_input#2:string mlp#3:MLP
MINDUserTower input#1:string history_input#2:string user_mlp#3:MLP hist_seq_mlp#4:MLP
  user_seq_combine#5:UserSeqCombineMethod capsule_config#6:B2ICapsule concat_mlp#7:MLP
ExtractionNetwork network_name#1:string expert_num_per_task#2:uint32 share_num#3:uint32
  task_expert_net#4:MLP share_expert_net#5:MLP
VariationalDropout regularization_lambda#1:float embedding_wise_variational_dropout#2:bool
B2ICapsule max_k#1:uint32 max_seq_len#2:uint32 high_dim#3:uint32 num_iters#4:uint32
  routing_logits_scale#5:float routing_logits_stddev#6:float squash_pow#7:float
  const_caps_num#8:bool routing_init_method#9:string
MaskBlock reduction_ratio#1:float aggregation_dim#2:uint32 hidden_dim#3:uint32
MaskNetModule n_mask_blocks#1:uint32 mask_block#2:MaskBlock top_mlp#3:MLP use_parallel#4:bool
CIN cin_layer_size#1:uint32*
WuKongLayer lcb_feature_num#1:uint32 fmb_feature_num#2:uint32 compressed_feature_num#3:uint32
  feature_num_mlp#4:MLP
GRSimpleActionEncoder action_embedding_dim#1:uint32 action_weights#3:uint32*
  watchtime_to_action_thresholds#4:uint32* watchtime_to_action_weights#5:uint32*
  embedding_init_std#6:float
GRActionEncoder simple_action_encoder#1:GRSimpleActionEncoder
GRMLPContentEncoder uih_mlp#1:MLP target_mlp#2:MLP
GRContentEncoder slice_content_encoder#1:GRSliceContentEncoder
  pad_content_encoder#2:GRPadContentEncoder mlp_content_encoder#3:GRMLPContentEncoder
GRSimpleContextualizedMLP hidden_dim#1:uint32
GRParameterizedContextualizedMLP hidden_dim#1:uint32 contextual_dropout_ratio#2:float
GRContextualizedMLP simple_mlp#10:GRSimpleContextualizedMLP
  parameterized_mlp#11:GRParameterizedContextualizedMLP
GRContextualPreprocessor action_encoder#3:GRActionEncoder action_mlp#4:GRContextualizedMLP
  content_encoder#5:GRContentEncoder content_mlp#6:GRContextualizedMLP
GRContextualInterleavePreprocessor action_encoder#3:GRActionEncoder enable_interleaving#4:bool
  action_mlp#5:GRContextualizedMLP content_encoder#6:GRContentEncoder
  content_mlp#7:GRContextualizedMLP
GRUIHPreprocessor action_encoder#1:GRActionEncoder action_mlp#2:GRContextualizedMLP
GRInputPreprocessor contextual_preprocessor#20:GRContextualPreprocessor
  contextual_interleave_preprocessor#21:GRContextualInterleavePreprocessor
  uih_preprocessor#22:GRUIHPreprocessor
GRTimestampLayerNormPostprocessor time_duration_period_units#1:uint32*
  time_duration_units_per_period#2:uint32*
GROutputPostprocessor l2norm_postprocessor#31:GRL2NormPostprocessor
  layernorm_postprocessor#32:GRLayerNormPostprocessor
  timestamp_layernorm_postprocessor#33:GRTimestampLayerNormPostprocessor
STU embedding_dim#1:uint32 num_heads#2:uint32 hidden_dim#3:uint32 attention_dim#4:uint32
  output_dropout_ratio#5:float max_attn_len#6:uint32 attn_alpha#7:float use_group_norm#8:bool
  recompute_normed_x#9:bool recompute_uvqk#10:bool recompute_y#11:bool sort_by_length#12:bool
  contextual_seq_len#13:int32 sla_k1#14:uint32 sla_k2#15:uint32 scaling_seqlen#16:int32
GRPositionalEncoder num_position_buckets#1:uint32 num_time_buckets#2:uint32 use_time_encoding#3:bool
  time_bucket_fn#4:string time_bucket_increments#5:float
HSTU stu#1:STU input_dropout_ratio#2:float attn_num_layers#3:uint32
  positional_encoder#4:GRPositionalEncoder input_preprocessor#5:GRInputPreprocessor
  output_postprocessor#6:GROutputPostprocessor attn_truncation_split_layer#7:uint32
  attn_truncation_tail_len#8:uint32 name#9:string
LossConfig binary_cross_entropy#1:BinaryCrossEntropy softmax_cross_entropy#2:SoftmaxCrossEntropy
  l2_loss#3:L2Loss jrc_loss#4:JRCLoss binary_focal_loss#5:BinaryFocalLoss recon_loss#6:SidReconLoss
  commitment_loss#7:SidCommitmentLoss contrastive_loss#8:SidContrastiveLoss
SidReconLoss recon_type#1:string
SidCommitmentLoss latent_weight#1:float* commitment_type#2:string
SoftmaxCrossEntropy label_smoothing#1:float
JRCLoss session_name#1:string alpha#2:float
BinaryFocalLoss gamma#1:float alpha#2:float
MulticlassAUC thresholds#1:uint32 average#2:string
Accuracy threshold#1:float top_k#2:uint32
XAUC sample_ratio#1:float max_pairs#2:uint64 in_batch#3:bool
GroupedXAUC grouping_key#1:string max_pairs_per_group#2:uint64
MetricConfig auc#1:AUC multiclass_auc#2:MulticlassAUC recall_at_k#3:RecallAtK
  mean_absolute_error#4:MeanAbsoluteError mean_squared_error#5:MeanSquaredError accuracy#6:Accuracy
  grouped_auc#7:GroupedAUC xauc#8:XAUC grouped_xauc#9:GroupedXAUC
  normalized_entropy#10:NormalizedEntropy
TrainMetricConfig auc#1:AUC recall_at_k#3:RecallAtK mean_absolute_error#4:MeanAbsoluteError
  mean_squared_error#5:MeanSquaredError accuracy#6:Accuracy xauc#8:XAUC decay_rate#20:float
  decay_step#21:uint32
SparseOptimizer sgd_optimizer#1:FusedSGDOptimizer adagrad_optimizer#2:FusedAdagradOptimizer
  adam_optimizer#3:FusedAdamOptimizer lars_sgd_optimizer#4:FusedLarsSGDOptimizer
  lamb_optimizer#5:FusedLAMBOptimizer
  partial_rowwise_lamb_optimizer#6:FusedPartialRowWiseLAMBOptimizer
  partial_rowwise_adam_optimizer#7:FusedPartialRowWiseAdamOptimizer
  rowwise_adagrad_optimizer#8:FusedRowWiseAdagradOptimizer
  adadelta_optimizer#9:FusedAdadeltaOptimizer rmsprop_optimizer#10:FusedRMSpropOptimizer
  constant_learning_rate#101:ConstantLR exponential_decay_learning_rate#102:ExponentialDecayLR
  manual_step_learning_rate#103:ManualStepLR cosine_annealing_learning_rate#104:CosineAnnealingLR
  cosine_annealing_warm_restarts_learning_rate#105:CosineAnnealingWarmRestartsLR
EMAConfig decay#1:float
DenseOptimizer sgd_optimizer#1:SGDOptimizer adagrad_optimizer#2:AdagradOptimizer
  adam_optimizer#3:AdamOptimizer adamw_optimizer#4:AdamWOptimizer
  adadelta_optimizer#5:AdadeltaOptimizer rmsprop_optimizer#6:RMSpropOptimizer
  constant_learning_rate#101:ConstantLR exponential_decay_learning_rate#102:ExponentialDecayLR
  manual_step_learning_rate#103:ManualStepLR cosine_annealing_learning_rate#104:CosineAnnealingLR
  cosine_annealing_warm_restarts_learning_rate#105:CosineAnnealingWarmRestartsLR
  part_optimizers#201:PartOptimizer* ema#202:EMAConfig
PartOptimizer sgd_optimizer#1:SGDOptimizer adagrad_optimizer#2:AdagradOptimizer
  adam_optimizer#3:AdamOptimizer adamw_optimizer#4:AdamWOptimizer
  adadelta_optimizer#6:AdadeltaOptimizer rmsprop_optimizer#7:RMSpropOptimizer regex_pattern#5:string
  constant_learning_rate#101:ConstantLR exponential_decay_learning_rate#102:ExponentialDecayLR
  manual_step_learning_rate#103:ManualStepLR cosine_annealing_learning_rate#104:CosineAnnealingLR
  cosine_annealing_warm_restarts_learning_rate#105:CosineAnnealingWarmRestartsLR
FusedSGDOptimizer lr#1:float gradient_clipping#2:bool max_gradient#3:float
FusedAdagradOptimizer lr#1:float gradient_clipping#2:bool max_gradient#3:float
  initial_accumulator_value#4:float
FusedAdamOptimizer lr#1:float beta1#2:float beta2#3:float weight_decay#4:float
  gradient_clipping#5:bool max_gradient#6:float
FusedLarsSGDOptimizer lr#1:float momentum#2:float weight_decay#3:float gradient_clipping#4:bool
  max_gradient#5:float
FusedLAMBOptimizer lr#1:float beta1#2:float beta2#3:float weight_decay#4:float
  gradient_clipping#5:bool max_gradient#6:float
FusedPartialRowWiseLAMBOptimizer lr#1:float beta1#2:float beta2#3:float weight_decay#4:float
  gradient_clipping#5:bool max_gradient#6:float
FusedPartialRowWiseAdamOptimizer lr#1:float beta1#2:float beta2#3:float weight_decay#4:float
  gradient_clipping#5:bool max_gradient#6:float
FusedRowWiseAdagradOptimizer lr#1:float weight_decay#2:float weight_decay_mode#3:WeightDecayMode
  gradient_clipping#4:bool max_gradient#5:float
FusedAdadeltaOptimizer lr#1:float rho#2:float eps#3:float weight_decay#4:float
  gradient_clipping#5:bool max_gradient#6:float
FusedRMSpropOptimizer lr#1:float alpha#2:float eps#3:float weight_decay#4:float
  gradient_clipping#5:bool max_gradient#6:float
SGDOptimizer lr#1:float momentum#2:float weight_decay#3:float dampening#4:float nesterov#5:bool
  fused#6:bool
AdagradOptimizer lr#1:float weight_decay#2:float initial_accumulator_value#3:float eps#4:float
  fused#5:bool
AdamOptimizer lr#1:float beta1#2:float beta2#3:float weight_decay#4:float eps#5:float amsgrad#6:bool
  fused#7:bool
AdamWOptimizer lr#1:float beta1#2:float beta2#3:float weight_decay#4:float eps#5:float
  amsgrad#6:bool fused#7:bool
AdadeltaOptimizer lr#1:float rho#2:float eps#3:float weight_decay#4:float
RMSpropOptimizer lr#1:float alpha#2:float eps#3:float weight_decay#4:float
MultiTower towers#1:Tower* final#2:MLP
MultiTowerDIN towers#1:Tower* din_towers#2:DINTower* final#3:MLP
MaskNet mask_net_module#1:MaskNetModule
xDeepFM cin#1:CIN deep#2:MLP final#3:MLP wide_embedding_dim#4:uint32 wide_init_fn#5:string
WuKong dense_mlp#1:MLP wukong_layers#2:WuKongLayer* final#3:MLP
SimpleMultiTask task_towers#1:TaskTower*
MMoE expert_mlp#1:MLP gate_mlp#2:MLP num_expert#3:uint32 task_towers#4:TaskTower*
DBMTL mask_net#6:MaskNetModule bottom_mlp#1:MLP expert_mlp#2:MLP gate_mlp#3:MLP num_expert#4:uint32
  task_towers#5:BayesTaskTower*
DC2VR bottom_mlp#1:MLP expert_mlp#2:MLP gate_mlp#3:MLP num_expert#4:uint32
  task_towers#5:InterventionTaskTower*
PLE extraction_networks#1:ExtractionNetwork* task_towers#2:TaskTower*
DlrmHSTU hstu#1:HSTU fusion_mtl_tower#2:FusionMTLTower max_seq_len#3:uint32
  item_embedding_hidden_dim#4:uint32 enable_global_average_loss#5:bool
  sequence_timestamp_is_ascending#6:bool concat_contextual_features#7:bool
UltraHSTU hstu#1:HSTU* fusion_mtl_tower#2:FusionMTLTower max_seq_len#3:uint32
  item_embedding_hidden_dim#4:uint32 enable_global_average_loss#5:bool
  sequence_timestamp_is_ascending#6:bool concat_contextual_features#7:bool
PEPNet epnet_hidden_unit#1:uint32 epnet_gamma#2:float ppnet_hidden_units#3:uint32*
  ppnet_activation#4:string ppnet_dropout_ratio#5:float* ppnet_gamma#6:float
  domain_input_name#7:string task_domain_num#8:uint32 task_towers#9:TaskTower*
DSSM user_tower#1:Tower item_tower#2:Tower output_dim#3:int32 similarity#4:Similarity
  temperature#5:float in_batch_negative#6:bool
HSTUMatch user_tower#1:HSTUUserTower item_tower#6:Tower output_dim#7:int32 similarity#3:Similarity
  temperature#4:float in_batch_negative#5:bool sequence_timestamp_is_ascending#8:bool
DSSMV2 user_tower#1:Tower item_tower#2:Tower output_dim#3:int32 similarity#4:Similarity
  temperature#5:float in_batch_negative#6:bool
TDM multiwindow_din#1:MultiWindowDINTower final#2:MLP
DAT user_tower#1:DATTower item_tower#2:DATTower output_dim#3:int32 similarity#4:Similarity
  temperature#5:float in_batch_negative#6:bool amm_i_weight#7:float amm_u_weight#8:float
MIND user_tower#1:MINDUserTower item_tower#2:Tower simi_pow#3:float similarity#4:Similarity
  in_batch_negative#5:bool temperature#6:float output_dim#7:int32
RocketLaunching share_mlp#1:MLP booster_mlp#2:MLP light_mlp#3:MLP feature_based_distillation#5:bool
  feature_distillation_function#6:Similarity
FaissKmeansConfig niter#1:uint32 nredo#2:uint32 seed#3:uint32 max_points_per_centroid#4:uint32
  min_points_per_centroid#5:uint32 spherical#6:bool verbose#7:bool
SinkhornConfig iters#1:uint32 epsilon#2:float enabled#3:bool
ContrastiveConfig pair_feature_group#1:string pair_flag_feature_group#2:string
SidCandidateOutputConfig enabled#1:bool topk#2:uint32 strategy#3:string
SidRqvae embed_dim#2:uint32 hidden_dims#3:uint32* codebook#5:uint32* forward_mode#6:string
  normalize_residuals#7:bool distance_type#9:string rotation_trick#12:bool kmeans_init#13:bool
  sinkhorn_config#15:SinkhornConfig contrastive_config#16:ContrastiveConfig
  candidate_output_config#17:SidCandidateOutputConfig
SidRqkmeans codebook#3:uint32* normalize_residuals#4:bool faiss_kmeans_kwargs#5:FaissKmeansConfig
  train_sample_size#6:uint32 candidate_output_config#7:SidCandidateOutputConfig
Field input_name#1:string input_type#2:FieldType
LFU_EvictionPolicy
MLPEmbedding
DynamicEmbInitializerArgs mode#1:string mean#2:float std_dev#3:float lower#4:float upper#5:float
  value#6:float
SidContrastiveLoss
BinaryCrossEntropy label_smoothing#1:float
L2Loss
AUC thresholds#1:uint32
RecallAtK top_k#1:uint32
MeanAbsoluteError
MeanSquaredError
GroupedAUC grouping_key#1:string
NormalizedEntropy eta#1:float
MLP hidden_units#1:uint32* dropout_ratio#2:float* activation#3:string use_bn#4:bool bias#5:bool
  use_ln#6:bool
Cross cross_num#1:uint32
CrossV2 cross_num#1:uint32 low_rank#2:uint32
GRSliceContentEncoder
GRPadContentEncoder
GRL2NormPostprocessor
GRLayerNormPostprocessor
WideAndDeep deep#1:MLP final#2:MLP wide_embedding_dim#3:uint32 wide_init_fn#4:string
DeepFM deep#1:MLP final#2:MLP wide_embedding_dim#3:uint32 wide_init_fn#4:string
DLRM dense_mlp#1:MLP arch_with_sparse#2:bool final#3:MLP
DCNV1 cross#1:Cross deep#2:MLP final#3:MLP
DCNV2 backbone#1:MLP cross#2:CrossV2 deep#3:MLP final#4:MLP
ConstantLR
ExponentialDecayLR decay_size#1:uint32 decay_factor#2:float staircase#3:bool
  warmup_learning_rate#4:float warmup_size#5:uint32 min_learning_rate#6:float by_epoch#7:bool
ManualStepLR schedule_sizes#1:uint32* learning_rates#2:float* warmup#3:bool by_epoch#4:bool
CosineAnnealingLR T_max#1:uint32 min_learning_rate#2:float warmup_learning_rate#3:float
  warmup_size#4:uint32 by_epoch#5:bool
CosineAnnealingWarmRestartsLR T_0#1:uint32 T_mult#2:uint32 min_learning_rate#3:float
  warmup_learning_rate#4:float warmup_size#5:uint32 by_epoch#6:bool
GradClipping clipping_type#1:string max_gradient#2:float norm_type#3:float
  enable_global_grad_clip#4:bool
FeatureStoreConfig region#1:string project_name#2:string feature_view_name#3:string version#5:string
  endpoint#6:string upload_batch_size#7:uint32 max_retries#8:uint32 retry_backoff_secs#9:uint32
  shutdown_timeout_secs#10:uint32 max_pending_steps#11:uint32 poll_interval_secs#12:uint32
  feature_view_ttl_secs#13:uint32 feature_view_shard_count#14:uint32
  feature_view_replication_count#15:uint32 retain_local_dump#17:bool upload_format#18:string
PipelineConfig train_input_path#1:string eval_input_path#2:string model_dir#3:string
  train_config#4:TrainConfig eval_config#5:EvalConfig export_config#6:ExportConfig
  data_config#7:DataConfig feature_configs#8:FeatureConfig* model_config#9:ModelConfig
)";

// "ENUM value=number".
inline constexpr const char* kTorchEasyRecEnums = R"(
DatasetType OdpsDataset=1 ParquetDataset=2 CsvDataset=3 OdpsDatasetV1=4 KafkaDataset=5
FieldType INT32=0 INT64=1 STRING=2 FLOAT=3 DOUBLE=4 ARRAY_INT32=5 ARRAY_INT64=6 ARRAY_STRING=7
  ARRAY_FLOAT=8 ARRAY_DOUBLE=9 ARRAY_ARRAY_INT32=10 ARRAY_ARRAY_INT64=11 ARRAY_ARRAY_STRING=12
  ARRAY_ARRAY_FLOAT=13 ARRAY_ARRAY_DOUBLE=14 MAP_STRING_INT32=15 MAP_STRING_INT64=16
  MAP_STRING_STRING=17 MAP_STRING_FLOAT=18 MAP_STRING_DOUBLE=19 MAP_INT64_INT32=20
  MAP_INT64_INT64=21 MAP_INT64_STRING=22 MAP_INT64_FLOAT=23 MAP_INT64_DOUBLE=24 MAP_INT32_INT32=25
  MAP_INT32_INT64=26 MAP_INT32_STRING=27 MAP_INT32_FLOAT=28 MAP_INT32_DOUBLE=29
FgMode FG_NONE=1 FG_NORMAL=2 FG_DAG=3 FG_BUCKETIZE=4
TextNormalizeOption TEXT_LOWER2UPPER=0 TEXT_UPPER2LOWER=1 TEXT_SBC2DBC=2 TEXT_CHT2CHS=3
  TEXT_FILTER=4 TEXT_SPLITCHRS=5 TEXT_REMOVE_SPACE=6
MINDUserTower.UserSeqCombineMethod CONCAT=0 SUM=1
Similarity COSINE=0 INNER_PRODUCT=1 EUCLID=2
FeatureGroupType DEEP=0 WIDE=1 SEQUENCE=2 JAGGED_SEQUENCE=3
Kernel TRITON=0 PYTORCH=1 CUTLASS=2
WeightDecayMode NONE=0 L2=1 DECOUPLE=2
DeltaEmbeddingQuantType DELTA_EMBEDDING_QUANT_NONE=0 DELTA_EMBEDDING_QUANT_INT8=1
)";

}  // namespace emblem
