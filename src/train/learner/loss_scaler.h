// train/learner/loss_scaler.h - by how much the loss of an fp16 model is scaled up.
#pragma once

#include <cstdint>
#include <optional>

#include "checkpoint/manifest.h"
#include "config/proto/pipeline.pb.h"
#include "core/math/half.h"

namespace emblem {

// Grows after a number of steps without overflow and backs off after one with; stays at 1 in other
// precisions than fp16.
class LossScaler {
 public:
  LossScaler(DType precision, const config::GradScaler& settings);

  bool active() const { return active_; }
  float scale() const { return scale_; }
  // Throws when the scale has backed off to nothing: then it is not the scale that overflows.
  void observe_overflow();
  void observe_good_step();

  // Whether an overflow lowers the scale.
  bool can_fall() const { return settings_.growth_interval() > 0; }

  // What a checkpoint stores, and back. In other precisions than fp16 the state of an earlier fp16
  // run is handed on unchanged.
  std::optional<LossScaleState> state() const;
  void restore(const std::optional<LossScaleState>& state);

 private:
  bool active_;
  config::GradScaler settings_;
  float scale_;
  uint32_t good_steps_ = 0;  // since the last change
  std::optional<LossScaleState> restored_;
};

}  // namespace emblem
