#include "bench/train/room.h"

#include "core/process.h"
#include "core/text.h"
#include "emblem/error.h"
#include "model/memory_estimate.h"

namespace emblem {
namespace {

constexpr double kMargin =
    0.1;  // of the available memory, for other processes and for what is not counted

}  // namespace

void require_host_memory(const Context& context, const config::PipelineConfig& config,
                         const FeatureLayout& layout, const TrainDemand& demand, int64_t limit) {
  if (context.device != Device::kCpu) return;
  const double room = limit > 0 ? static_cast<double>(limit)
                                : (1 - kMargin) * static_cast<double>(available_memory_bytes());
  const auto wanted =
      static_cast<double>(estimate_training_bytes(config, layout, demand.keys_per_feature)
                              .of(demand.rows, demand.batches));
  if (wanted <= room) return;
  throw Error(ErrorCode::kOutOfMemory,
              cat("out of host memory: training with batches of ", demand.rows,
                  " rows needs about ", format_bytes(wanted), ", but only ", format_bytes(room),
                  " are available; lower the batch size, the sizes of tables or embedding_dim"));
}

}  // namespace emblem
