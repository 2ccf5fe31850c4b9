// optim/dense_optimizer.h - updates all dense parameters of a model in one pass over flat memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/context.h"
#include "core/memory/any_view.h"
#include "core/memory/buffer.h"
#include "core/memory/view.h"
#include "optim/from_config.h"

namespace emblem {

// Floats [begin, end) of the parameters: matrices of linear layers, to which `l2` applies.
struct WeightRange {
  int64_t begin = 0, end = 0;
};

// Runs on the device of its context, where parameters and gradients must be too.
class DenseOptimizer {
 public:
  // An optimizer of `size` parameters. `l2` is added to settings.weight_decay, on `weights`
  // only.
  DenseOptimizer(const Context& context, const DenseOptimizerSettings& settings, int64_t size,
                 std::span<const WeightRange> weights, float l2);
  // An optimizer of those of `size` parameters that are in `own`, ascending ranges; it leaves
  // others alone.
  DenseOptimizer(const Context& context, const DenseOptimizerSettings& settings, int64_t size,
                 std::span<const WeightRange> weights, float l2, std::vector<WeightRange> own);

  // w <- rule(w, scale * g + decay * w) for its own parameters; views are of all. `step` counts
  // from 1.
  void update(const Context& context, View<float> parameters, View<const float> gradients,
              float scale, float learning_rate, int64_t step);

  // State floats, [states, own parameters]: all there is to save and restore.
  View<float> state();
  const std::vector<WeightRange>& own() const { return own_; }

 private:
  DenseOptimizerSettings settings_;
  int64_t size_ = 0;  // all parameters
  std::vector<WeightRange> own_;
  int64_t own_size_ = 0;
  Buffer<float> state_;
  Buffer<float> decay_;  // per own parameter; empty when there is none
};

// An exponential moving average of all parameters, as torch's AveragedModel with an EMA function.
class DenseAverage {
 public:
  DenseAverage(const Context& context, float decay, View<const float> parameters);

  // average <- decay * average + (1 - decay) * parameters; the first time it becomes a copy.
  void update(const Context& context, View<const float> parameters);
  // Exchanges the average with the parameters. Twice changes nothing.
  void swap_with(const Context& context, View<float> parameters);

  View<float> values() { return values_.view(); }
  bool started() const { return started_; }  // updated at least once
  void set_started(bool started) { started_ = started; }

 private:
  float decay_;
  Buffer<float> values_;
  bool started_ = false;
};

// to += scale * values.
void add_scaled(const Context& context, View<const float> values, float scale, View<float> to);

// The sum of squares, in double precision and in an order that does not depend on the number of
// threads. Waits for it.
class SquaredNorm {
 public:
  explicit SquaredNorm(const Context& context);
  double operator()(const Context& context, View<const float> values);

 private:
  Buffer<double> scratch_;  // on a GPU
};

// Clamps each value to [-limit, limit]; NaN stays. In 16 bits only on a GPU.
void clip_by_value(const Context& context, AnyView values, float limit);

}  // namespace emblem
