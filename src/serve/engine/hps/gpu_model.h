// serve/engine/hps/gpu_model.h - a served model on a GPU: its rows in device memory, shared by its
// engines. CUDA builds only.
#pragma once

#include <memory>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "model/predict/predictor.h"
#include "ps/tables/device_tier.h"
#include "ps/tables/served_model.h"
#include "serve/engine/hps/gpu_options.h"

namespace emblem::cuda {

// Const methods may be called concurrently. Outlives its predictors.
class GpuModel {
 public:
  // `config` and `layout` are borrowed. `host_lookup` looks up in host memory, for models that
  // DevicePredictor does not run.
  GpuModel(const config::PipelineConfig& config, const FeatureLayout& layout,
           const ServedModel& tables, const GpuOptions& options, MakeLookup host_lookup);

  // A predictor with these dense parameters and statistics, in the order of the graph's.
  std::unique_ptr<Predictor> make_predictor(const std::vector<float>& parameters,
                                            const std::vector<float>& statistics) const;

 private:
  config::PipelineConfig config_;
  const FeatureLayout& layout_;
  GpuOptions options_;
  MakeLookup host_lookup_;
  bool is_plain_ = false;
  std::vector<std::unique_ptr<DeviceTier>> tiers_;  // tier of each lookup
};

}  // namespace emblem::cuda
