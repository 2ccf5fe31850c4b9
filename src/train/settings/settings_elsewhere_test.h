// train/settings/settings_elsewhere_test.h - fields that settings_test.cc does not show: what they
// change needs more than one process on a CPU, or is not part of its result.
#pragma once

namespace emblem {

// "Message: field field". A new field does not belong here: let a pipeline show it, or refuse or
// mention it.
inline constexpr char kShownElsewhere[] = R"(
# Remote stores: data/source/remote_storage_test.cc, tests/remote_endpoints_test.py
DataConfig: cache_bytes cache_dir download_threads endpoint part_bytes
# How fast, with the same result: data/loader/loader_test.cc, model/lookup/table_config_test.cc, tests/limits_test.py
DataConfig: direct_reads eval_batch_size num_workers prefetch_batches
DynamicEmbedding: init_capacity_per_rank
TrainConfig: num_threads
# Data of more rows, or other ones: data/loader/loader_test.cc, data/format/local_input_test.cc,
# data/format/bad_input_test.cc, tests/input_fields_test.py
DataConfig: dataset_type max_bad_rows shuffle_buffer_size
Field: input_name input_type
CombineFeature: pooling
# What follows from other settings, and is refused otherwise: config/feature/metrics_test.cc,
# config/feature/feature_settings_test.cc
EarlyStopping: higher_is_better
ReduceOnPlateauLR: higher_is_better
ExprFeature: value_dim
# Names that are not read are allowed: config/feature/features_test.cc
ExprFeature: variables
# GPUs: train/learner/loss_scaler_test.cc, tests/overflow_test.py, model/lookup/table_config_test.cc, tests/gpu_memory_test.py
GradScaler: backoff_factor growth_factor growth_interval init_scale
TrainConfig: deterministic device_bytes
# Several ranks: tests/plan_test.py, tests/ranks_refusals_test.py, tests/ranks_train_test.py
TrainConfig: logical_shards plan_path
# What reads a checkpoint: data/feature/column_types_test.cc, data/format/rows/trained_values_test.cc
TrainedColumn: input_name input_type kind spelling
# Exports: serve/repository/export_test.cc
ExportConfig: use_dense_ema
# Every zch is warned about, whatever it is: model/check/check_test.cc
ZeroCollisionHash: eviction_interval
)";

}  // namespace emblem
