// train/feed.h - a Batch from the loader as the model sees it.
#pragma once

#include <vector>

#include "data/batch.h"
#include "model/model.h"

namespace emblem {

// Views into `batch`, which must outlive them. Keeps its vector between batches.
class Feed {
 public:
  const ModelBatch& set(const Batch& batch);

 private:
  std::vector<FeatureKeys> keys_;
  ModelBatch view_;
};

}  // namespace emblem
