#include "train/learner/loss_scaler.h"

#include <algorithm>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr float kLeast = 1e-6f, kMost = 1.6e7f;

}  // namespace

LossScaler::LossScaler(DType precision, const config::GradScaler& settings)
    : active_(precision == DType::kF16),
      settings_(settings),
      scale_(active_ ? settings.init_scale() : 1.0f) {}

void LossScaler::observe_overflow() {
  if (!active_) return;  // a test hook
  good_steps_ = 0;
  if (settings_.growth_interval() > 0) scale_ *= settings_.backoff_factor();
  if (scale_ >= kLeast) return;
  throw Error(ErrorCode::kInternal,
              "gradients are infinite or not numbers in fp16 however small the loss is scaled; "
              "lower lr, add grad_clipping, or use --precision bf16");
}

void LossScaler::observe_good_step() {
  if (!active_ || settings_.growth_interval() == 0) return;
  if (++good_steps_ < settings_.growth_interval()) return;
  good_steps_ = 0;
  scale_ = std::min(kMost, scale_ * settings_.growth_factor());
}

std::optional<LossScaleState> LossScaler::state() const {
  if (!active_) return restored_;
  return LossScaleState{.scale = scale_, .good_steps = good_steps_};
}

void LossScaler::restore(const std::optional<LossScaleState>& state) {
  restored_ = state;
  if (!active_ || !state) return;
  scale_ = static_cast<float>(state->scale);
  good_steps_ = static_cast<uint32_t>(state->good_steps);
}

}  // namespace emblem
