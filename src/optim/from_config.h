// optim/from_config.h - optimizers as the configuration asks for them.
#pragma once

#include "config/optimizer.pb.h"
#include "optim/rule.h"

namespace emblem {

struct SparseOptimizerSettings {
  Rule rule;
  float learning_rate = 0.0f;  // what the schedule scales
  float initial_accumulator = 0.0f;
  float l2 = 0.0f;  // weight_decay
};

struct DenseOptimizerSettings {
  Rule rule;  // AdamW is Adam with decoupled_decay
  float learning_rate = 0.0f;
  float initial_accumulator = 0.0f;
  float weight_decay = 0.0f;  // L2, on all parameters, as PyTorch's optimizers do
};

// Throws when no optimizer is set, listing those there are.
SparseOptimizerSettings sparse_optimizer_from(const config::SparseOptimizer& optimizer);
DenseOptimizerSettings dense_optimizer_from(const config::DenseOptimizer& optimizer);

}  // namespace emblem
