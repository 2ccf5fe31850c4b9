// embedding/cuda/update_scalars.h - what of an update changes from step to step, in device memory: there a
// captured step finds the values of the step that it is replayed for.
#pragma once

#include <array>

#include "core/context.h"
#include "optim/rule.h"

namespace emblem::cuda {

struct StepValues {
  float scale = 1.0f;  // of gradients
  float learning_rate = 0.0f;
  float correction1 = 1.0f, correction2 = 1.0f;  // of Adam
  float dampening = 0.0f;                        // of Momentum
};
using StepValuesOfClasses = std::array<StepValues, 16>;

StepValues values_of(const Rule& at_step, float scale);

// Copies them to device memory; `values` may change as soon as this returns. Asynchronous.
void store_values(const Context& context, const StepValuesOfClasses& values, StepValues* there);

}  // namespace emblem::cuda
