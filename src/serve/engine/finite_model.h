// serve/engine/finite_model.h - whether the values of a checkpoint can be served.
#pragma once

#include "checkpoint/checkpoint.h"

namespace emblem {

// Reads all rows and dense parameters. Throws kInvalidArgument when some are NaN or infinite: such
// values come from training that diverged, and make answers NaN.
void require_finite_model(const Checkpoint& checkpoint);

// The same for the dense parameters alone. Servers look at rows as they read them.
void require_finite_parameters(const Checkpoint& checkpoint);

}  // namespace emblem
