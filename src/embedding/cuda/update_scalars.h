// embedding/cuda/update_scalars.h - what of an update changes from step to step, in device memory:
// there a captured step finds the values of the step that it is replayed for.
#pragma once

#include <array>

#include "core/context.h"
#include "optim/rule.h"

namespace emblem::cuda {

struct UpdateScalars {
  float scale = 1.0f;  // of gradients
  float learning_rate = 0.0f;
  float correction1 = 1.0f, correction2 = 1.0f;  // of Adam
  float dampening = 0.0f;                        // of Momentum
};
using UpdateScalarsOfClasses = std::array<UpdateScalars, 16>;

UpdateScalars values_of(const Rule& at_step, float scale);

// Copies them to device memory; `values` may change as soon as this returns. Asynchronous.
void store_scalars(const Context& context, const UpdateScalarsOfClasses& values,
                   UpdateScalars* there);

}  // namespace emblem::cuda
