// optim/from_config.h - optimizers as the configuration asks for them.
#pragma once

#include "config/proto/optimizer.pb.h"
#include "optim/rule.h"

namespace emblem {

struct SparseOptimizerSettings {
  Rule rule;
  float learning_rate = 0.0f;  // what the schedule scales
  float initial_accumulator = 0.0f;
  float l2 = 0.0f;            // weight_decay that adds to the gradient
  float max_gradient = 0.0f;  // each gradient of a lookup's output is clipped to it; 0: none is
};

struct DenseOptimizerSettings {
  Rule rule;  // AdamW is Adam or AmsGrad with decoupled_decay
  float learning_rate = 0.0f;
  float initial_accumulator = 0.0f;
  float weight_decay = 0.0f;  // L2, on all parameters, as PyTorch's optimizers do
};

// Throws when no optimizer is set, listing those there are, and for one that is not supported.
SparseOptimizerSettings sparse_optimizer_from(const config::SparseOptimizer& optimizer);
DenseOptimizerSettings dense_optimizer_from(const config::DenseOptimizer& optimizer);
DenseOptimizerSettings dense_optimizer_from(const config::PartOptimizer& optimizer);

}  // namespace emblem
