// bench/train/room.h - checks that a training run fits into host memory.
#pragma once

#include <cstdint>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "core/context.h"

namespace emblem {

// The size of a training run.
struct TrainDemand {
  int64_t rows = 0;             // of a batch
  int64_t batches = 1;          // in memory at the same time
  double keys_per_feature = 1;  // per row
};

// Throws Error (kOutOfMemory) if training on the CPU would need more than `limit` bytes, estimated
// before anything is allocated, so that the machine does not swap and the process is not killed. A
// limit of 0 is 90 % of the available memory. Does nothing on a GPU, where the allocator reports
// it.
void require_host_memory(const Context& context, const config::PipelineConfig& config,
                         const FeatureLayout& layout, const TrainDemand& demand, int64_t limit);

}  // namespace emblem
