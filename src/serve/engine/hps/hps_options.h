// serve/engine/hps/hps_options.h - what a model of backend hps makes of its config.pbtxt and of its
// entry in ps.json.
#pragma once

#include <string>
#include <vector>

#include "ps/config/ps_config.h"
#include "serve/engine/hps/gpu_options.h"
#include "serve/engine/servable.h"

namespace inference {
class ModelConfig;
}

namespace emblem {

inline constexpr const char* kHpsBackend = "hps";
inline constexpr const char *kHpsKeys = "KEYS", *kHpsCounts = "NUMKEYS", *kHpsRows = "OUTPUT0";

struct HpsOptions {
  bool on_gpu = false;  // rows are cached in GPU memory, as the others say
  GpuOptions cache;
  double refresh_share = 0.0;  // DeviceTierSettings::refresh_share
  bool fill = false;           // the cache before the first request
  // From config.pbtxt, in addition to what ps.json says; 0: never.
  double refresh_delay_s = 0.0, refresh_interval_s = 0.0;
  std::vector<TensorMetadata> inputs, outputs;
};

// Settings without effect, and a GPU that is asked for and cannot be used, are one log line each.
// Throws kInvalidArgument for tensors other than those of backend hps.
HpsOptions hps_options(const inference::ModelConfig& config, const PsModel& model,
                       const std::string& where);

}  // namespace emblem
