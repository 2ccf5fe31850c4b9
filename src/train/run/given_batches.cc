#include "train/run/given_batches.h"

#include <algorithm>
#include <numeric>

namespace emblem {

GivenBatches::GivenBatches(const Context& context, const World& world)
    : world_(world), batches_(context, [this] { return given_; }) {
  EMBLEM_REQUIRE(world.own_shards() == 1, "batches are given to a rank with ", world.own_shards(),
                 " shards; choose train_config.logical_shards as large as the number of ranks");
}

const StepBatches* GivenBatches::take(const Batch& batch, bool is_cancelled) {
  const auto cancelled = world_.gather(std::vector<uint8_t>{is_cancelled});
  was_cancelled_ = std::count(cancelled.begin(), cancelled.end(), 1) > 0;
  if (was_cancelled_) return nullptr;
  given_ = &batch;
  batches_.next();
  step_.shards = {batch.rows > 0 ? &batches_.batch() : nullptr};
  step_.hosts = {batch.rows > 0 ? &batch : nullptr};
  step_.rows = world_.gather(std::vector<int64_t>{batch.rows});
  step_.all_rows = std::accumulate(step_.rows.begin(), step_.rows.end(), int64_t{0});
  return step_.all_rows > 0 ? &step_ : nullptr;
}

}  // namespace emblem
