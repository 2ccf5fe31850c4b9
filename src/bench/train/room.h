// bench/train/room.h - whether there is host memory for a training, asked before it is taken.
#pragma once

#include <cstdint>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "core/context.h"

namespace emblem {

// What a training asks for.
struct TrainDemand {
  int64_t rows = 0;             // of a batch
  int64_t batches = 1;          // in memory at a time
  double keys_per_feature = 1;  // a row
};

// Throws Error (kOutOfMemory) where a training on the CPU would take more than `limit` bytes, by
// estimate; 0: nine tenths of what the machine has left, so that it is neither driven into swap nor
// this process killed. On a GPU the allocator says so in time: nothing is asked.
void require_host_memory(const Context& context, const config::PipelineConfig& config,
                         const FeatureLayout& layout, const TrainDemand& demand, int64_t limit);

}  // namespace emblem
