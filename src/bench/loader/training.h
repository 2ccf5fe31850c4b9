// bench/loader/training.h - the cost of loading for training: the same steps with batches from
// the loader and with batches in memory.
#pragma once

#include "bench/loader/setting.h"
#include "config/features.h"
#include "config/pipeline.pb.h"
#include "core/context.h"

namespace emblem {

struct LoadedTraining {
  double loaded_rate = 0;            // samples/s, batches from the loader
  double resident_rate = 0;          // samples/s, batches in memory
  double copy_bytes_per_second = 0;  // of batches to the device; 0 on a CPU

  // The share of training time in which the device waited for the loader.
  double idle_share() const;
};

// Trains for about `seconds` in total, alternating with and without the loader.
LoadedTraining train_with_loader(const Context& context, const config::PipelineConfig& config,
                                 const FeatureLayout& layout, const LoaderSetting& setting,
                                 double seconds);

}  // namespace emblem
