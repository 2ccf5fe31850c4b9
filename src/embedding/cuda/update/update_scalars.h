// embedding/cuda/update/update_scalars.h - the scalars of an update that change from step to step,
// in device memory, where a replayed step reads the current ones.
#pragma once

#include <array>

#include "core/device/context.h"
#include "optim/rule.h"

namespace emblem::cuda {

struct UpdateScalars {
  float scale = 1.0f;  // factor of gradients
  float learning_rate = 0.0f;
  float correction1 = 1.0f, correction2 = 1.0f;  // bias corrections of Adam
  float dampening = 0.0f;                        // dampening of Momentum
  // Random bits for stochastic rounding (embedding/rounding.h).
  uint32_t rounding_draw = 0;
};
using UpdateScalarsOfClasses = std::array<UpdateScalars, 16>;

UpdateScalars values_of(const Rule& at_step, float scale, int64_t step);

// Copies them to device memory; `values` need not stay unchanged. Asynchronous.
void store_scalars(const Context& context, const UpdateScalarsOfClasses& values, UpdateScalars* to);

}  // namespace emblem::cuda
