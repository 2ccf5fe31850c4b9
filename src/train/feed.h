// train/feed.h - a Batch from the loader as the model sees it, on the model's device.
#pragma once

#include <memory>
#include <vector>

#include "data/batch.h"
#include "model/model.h"

namespace emblem {

namespace cuda {
class BatchCopier;
}

// One thread uses a feed. Keeps its memory between batches.
class Feed {
 public:
  explicit Feed(const Context& context);

  // On a CPU: views into `batch`, which must outlive them. On a GPU: copies, made beside the work
  // of the context's stream, which waits for them; `batch` may be changed at once. They stay until
  // the work enqueued before the next call is done.
  const ModelBatch& set(const Batch& batch);

 private:
  Context context_;
  std::vector<FeatureKeys> keys_;
  ModelBatch view_;
  std::shared_ptr<cuda::BatchCopier> copier_;  // on a GPU
};

}  // namespace emblem
