// embedding/cuda/lookup/batch_layout.h - where the keys of features are in a batch: by class, one
// after the other (embedding/cuda/lookup/device_batch.cuh).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "embedding/lookup.h"

namespace emblem::cuda {

struct BatchRef;

// A feature of a lookup on the GPU.
struct LaidFeature {
  Pooling pooling;
  int64_t column;  // column of the output
  int table;       // by number
  int cls;         // class of tables that the same kernels work on
};

class BatchLayout {
 public:
  BatchLayout() = default;
  BatchLayout(std::vector<LaidFeature> features, int tables, int classes, int64_t width);

  const std::vector<LaidFeature>& features() const { return features_; }

  // Positions that the keys of a batch take at most.
  static int64_t positions_of(std::span<const FeatureKeys> features);
  // A batch without the tables, the output and the scratch memory of a pass.
  BatchRef lay_out(std::span<const FeatureKeys> features) const;

 private:
  std::vector<LaidFeature> features_;
  std::vector<size_t> order_;  // features by class
  int tables_ = 0, classes_ = 0;
  int64_t width_ = 0;
};

// Whether some feature has bags, or weights: its rows are pooled, not copied.
bool has_bags(std::span<const FeatureKeys> features);

}  // namespace emblem::cuda
