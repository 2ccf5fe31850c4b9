// serve/engine/hps/hps_gpu.h - tables of backend hps with rows cached in GPU memory, shared by the
// engines of a model. CUDA builds only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ps/tables/device_tier.h"
#include "serve/engine/hps/hps_lookup.h"

namespace emblem::cuda {

struct HpsGpuSettings {
  DeviceTierSettings tier;                    // rows are float32
  std::vector<int64_t> keys_per_sample = {};  // usual number of keys of each table
  int64_t max_samples = 0;                    // in a request, usually; others take several passes
  bool fill = false;                          // the cache before the first request
};

// Const methods may be called concurrently. Outlives its lookups.
class HpsGpuTables {
 public:
  explicit HpsGpuTables(HpsGpuSettings settings);

  std::unique_ptr<HpsLookup> make_lookup() const;
  DeviceTier& tier() const { return *tier_; }

 private:
  std::vector<int64_t> dims_;     // dims of the tables
  std::vector<int64_t> columns_;  // columns of each table in a pass
  int64_t max_rows_ = 0;          // limit of rows of a pass
  std::unique_ptr<DeviceTier> tier_;
};

}  // namespace emblem::cuda
