// train/run/given_batches.h - batches that a caller gives, as the steps of all ranks.
#pragma once

#include "train/run/batch_stream.h"
#include "train/run/shard_batches.h"

namespace emblem {

// Each rank gives the batch of its only shard. Used by one thread.
class GivenBatches {
 public:
  GivenBatches(const Context& context, const World& world);

  // The step of a batch, which stays until the next call; null where no rank has rows, and where
  // one of them is cancelled. Collective.
  const StepBatches* take(const Batch& batch, bool is_cancelled);
  bool was_cancelled() const { return was_cancelled_; }

 private:
  const World world_;
  const Batch* given_ = nullptr;
  BatchStream batches_;
  bool was_cancelled_ = false;
  StepBatches step_;
};

}  // namespace emblem
