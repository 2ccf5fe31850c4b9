// serve/engine/hps/gpu_options.h - how the instances of a model run on a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "core/math/half.h"
#include "embedding/cache/row_cache_ref.h"
#include "ps/config/ps_config.h"

namespace inference {
class ModelConfig;
}

namespace emblem {

struct GpuOptions {
  bool used = false;  // an instance_group of KIND_GPU
  // Type of layers and, on a GPU, of rows. On a CPU too, as the model was exported: int8 or fp32.
  DType precision = DType::kF32;
  bool precision_is_given = false;
  // For the rows in device memory:
  double cache_share = 0.2;
  int64_t cache_bytes = 0;  // maximum; 0: no limit
  CachePolicy cache_policy = CachePolicy::kLru;
  // See DeviceTierSettings; above 1: every batch waits for its rows.
  double hit_rate_threshold = 2.0;
  int64_t max_rows = 16384;  // computed at once; larger batches in pieces
};

// Options from the instance groups and the parameters precision, cache_size_percentage
// (gpucacheper is the same), cache_bytes, cache_policy and hit_rate_threshold. Throws
// kInvalidArgument.
GpuOptions gpu_options(const inference::ModelConfig& config, const std::string& where);

// What ps.json says of the model's cache, in the place of defaults.
void apply_ps_model(const PsModel& model, const inference::ModelConfig& config,
                    GpuOptions& options);

// Makes all instances run on a GPU, one unless a group of KIND_GPU says how many.
void move_to_gpu(inference::ModelConfig& config);

// Empty: as the parameters say.
void set_precision(inference::ModelConfig& config, const std::string& precision);

}  // namespace emblem
