// train/report/loss_watch.h - notices a loss that explodes, and says which raw features may be the
// cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/batch.h"

namespace emblem {

// Used by one thread.
class LossWatch {
 public:
  // Losses of classes are about 1 at first; those of numbers have the scale of their labels.
  enum class Scale { kClasses, kLabels };

  // `layout` must outlive this.
  LossWatch(const FeatureLayout& layout, Scale scale);

  // Called before the step of a batch, which must live until the next call. Measures the raw
  // features of the first batches.
  void begin_step(const Batch& batch);

  // Called after the step, with its loss. Returns a warning the first time that the loss is
  // far above that of the first step; nothing otherwise.
  std::optional<std::string> end_step(int64_t step, double loss);

  // Called after the last step: a warning if no step had a loss.
  std::optional<std::string> end_run() const;

  // "the raw features with the largest mean magnitude are I2 (120000) and I7 (430): normalize them
  // ..."; from the first batches and the one at hand.
  std::string advice() const;

 private:
  struct Magnitude {
    double sum = 0.0;  // sum of absolute values
    int64_t count = 0;
    double mean() const { return count == 0 ? 0.0 : sum / static_cast<double>(count); }
  };
  void measure(const Batch& batch, std::vector<Magnitude>& of) const;

  const FeatureLayout& layout_;
  Scale scale_;
  std::vector<Magnitude> first_batches_;  // by feature; none of a sparse one
  int64_t measured_ = 0;
  const Batch* batch_ = nullptr;
  double first_loss_ = 0.0;  // 0: none yet
  bool warned_ = false;
  int64_t steps_ = 0;
  bool had_loss_ = false;  // other than 0
};

}  // namespace emblem
