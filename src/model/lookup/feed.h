// model/lookup/feed.h - a Batch as the model sees it, on the model's device.
#pragma once

#include <memory>

#include "model/lookup/batch_view.h"

namespace emblem {

namespace cuda {
class BatchCopier;
}

// One thread uses a feed. Keeps its memory between batches. Training and evaluation, where batches
// follow each other, use train/run/batch_stream.h.
class Feed {
 public:
  explicit Feed(const Context& context);

  // On a CPU: views into `batch`, which must outlive them. On a GPU: waits until it is copied. The
  // copy stays until the work enqueued before the next call is done.
  const ModelBatch& set(const Batch& batch);

 private:
  Context context_;
  BatchView view_;
  std::shared_ptr<cuda::BatchCopier> copier_;  // on a GPU
  int slot_ = 0;
};

}  // namespace emblem
