// train/loss_watch.h - notices a loss that explodes, and says which raw features may be the cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/features.h"
#include "data/batch.h"

namespace emblem {

// Used by one thread.
class LossWatch {
 public:
  // `layout` must outlive this.
  explicit LossWatch(const FeatureLayout& layout);

  // Before the step of a batch, which must live until the next call. Measures the raw features of
  // the first batches.
  void begin_step(const Batch& batch);

  // After it, with its loss. Returns a warning the first time that the loss is far above that of
  // the first step; nothing otherwise.
  std::optional<std::string> end_step(int64_t step, double loss);

  // "the raw features with the largest mean magnitude are I2 (120000) and I7 (430): normalize them
  // ..."; from the first batches and the one at hand.
  std::string advice() const;

 private:
  struct Magnitude {
    double sum = 0.0;  // of absolute values
    int64_t count = 0;
    double mean() const { return count == 0 ? 0.0 : sum / static_cast<double>(count); }
  };
  void measure(const Batch& batch, std::vector<Magnitude>& of) const;

  const FeatureLayout& layout_;
  std::vector<Magnitude> first_batches_;  // by feature; none of a sparse one
  int64_t measured_ = 0;
  const Batch* batch_ = nullptr;
  double first_loss_ = 0.0;  // 0: none yet
  bool warned_ = false;
};

}  // namespace emblem
