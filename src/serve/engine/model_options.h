// serve/engine/model_options.h - what Emblem makes of a model's config.pbtxt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/engine/batching/batch_queue.h"
#include "serve/engine/hps/gpu_options.h"
#include "serve/engine/servable.h"

namespace inference {
class ModelConfig;
}

namespace emblem {

struct ModelOptions {
  BatchOptions batching;
  int instances = 1;     // engines
  int threads = 1;       // threads of each; parameter "threads"
  bool has_slo = false;  // batching.slo_p99 is the model's own; parameter "slo_p99_us"
  GpuOptions gpu;
};

struct EngineCount {
  int instances = 1;  // engines
  int threads = 1;    // threads of each; parameter "threads"

  // Threads of the engines and of their pools.
  int all_threads() const { return instances * (threads > 1 ? threads + 1 : 1); }
};
// Throws kInvalidArgument. `where` names the file.
EngineCount engine_count(const inference::ModelConfig& config, const std::string& where);

// Throws kUnsupported for models of other backends. `where` names the file.
void check_backend(const inference::ModelConfig& config, const std::string& where);

// Throws kInvalidArgument for settings that contradict the servable or each other, kUnsupported for
// what Emblem does not do and would change answers (sequences, ensembles, other backends, reshaped
// tensors, ...). without_effect.h names what it takes and does not use. `where` names the file.
ModelOptions model_options(const inference::ModelConfig& config, const Servable& servable,
                           const std::string& where);

// A configuration for a servable whose folder has none: dynamic batching, an engine for each core.
inference::ModelConfig default_model_config(const std::string& name, const Servable& servable);

// Reads config.pbtxt. Throws with FILE:LINE:COLUMN and the nearest valid field.
inference::ModelConfig parse_model_config(const std::string& text, const std::string& file);
// As clients send it with a load request.
inference::ModelConfig parse_model_config_json(const std::string& json, const std::string& where);
std::string to_text(const inference::ModelConfig& config);

// Which of the versions that are there (ascending) shall run.
std::vector<int64_t> choose_versions(const inference::ModelConfig& config,
                                     const std::vector<int64_t>& there, const std::string& where);

}  // namespace emblem
