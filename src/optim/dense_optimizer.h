// optim/dense_optimizer.h - updates all dense parameters of a model in one pass over flat memory.
#pragma once

#include <cstdint>
#include <span>

#include "core/buffer.h"
#include "core/context.h"
#include "core/view.h"
#include "optim/from_config.h"

namespace emblem {

// Floats [begin, end) of the parameters: matrices of linear layers, to which `l2` applies.
struct WeightRange {
  int64_t begin = 0, end = 0;
};

// On the device of its context, where parameters and gradients must be too.
class DenseOptimizer {
 public:
  // For `size` parameters. `l2` is added to settings.weight_decay, on `weights` only.
  DenseOptimizer(const Context& context, const DenseOptimizerSettings& settings, int64_t size,
                 std::span<const WeightRange> weights, float l2);

  // w <- rule(w, scale * g + decay * w). `step` counts from 1.
  void update(const Context& context, View<float> parameters, View<const float> gradients,
              float scale, float learning_rate, int64_t step);

  // State floats, [states, size]: all there is to save and restore.
  View<float> state();

 private:
  DenseOptimizerSettings settings_;
  Buffer<float> state_;
  Buffer<float> decay_;  // per parameter; empty when there is none
};

// The sum of squares, in double precision and in an order that does not depend on the number of
// threads. Waits for it.
class SquaredNorm {
 public:
  explicit SquaredNorm(const Context& context);
  double operator()(const Context& context, View<const float> values);

 private:
  Buffer<double> scratch_;  // on a GPU
};

// Clamps each value to [-limit, limit].
void clip_by_value(const Context& context, View<float> values, float limit);

}  // namespace emblem
