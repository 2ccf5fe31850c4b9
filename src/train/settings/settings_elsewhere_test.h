// train/settings/settings_elsewhere_test.h - fields that settings_test.cc does not show: what they
// change needs more than one process on a CPU, or is not part of its result.
#pragma once

namespace emblem {

// "Message: field field". A new field does not belong here: let a pipeline show it, or refuse or
// mention it.
inline constexpr char kShownElsewhere[] = R"(
# Remote stores: data/source/remote_storage_test.cc, tests/remote_endpoints_test.py
DataConfig: cache_bytes cache_dir endpoint
# How fast, with the same result: data/loader/loader_test.cc, embedding/table_test.cc, tests/limits_test.py
DataConfig: direct_reads
DynamicEmbedding: init_capacity_per_rank
TrainConfig: num_threads
# GPUs: train/learner/loss_scaler_test.cc, tests/overflow_test.py, model/lookup/table_config_test.cc, tests/gpu_memory_test.py
GradScaler: growth_interval
TrainConfig: deterministic device_bytes
# Several ranks: tests/plan_test.py, tests/ranks_refusals_test.py
TrainConfig: plan_path
# What reads a checkpoint: data/feature/column_types_test.cc, data/format/rows/trained_values_test.cc
TrainedColumn: input_name input_type kind spelling
# Exports: serve/repository/export_test.cc
ExportConfig: use_dense_ema
# Every zch is warned about, whatever it is: config/check/check_test.cc
ZeroCollisionHash: eviction_interval
)";

}  // namespace emblem
