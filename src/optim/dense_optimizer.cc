#include "optim/dense_optimizer.h"

#include <algorithm>
#include <vector>

#include "optim/dense_update.h"

namespace emblem {
namespace {

int64_t states_of(const Rule& rule) { return state_floats(rule, 1); }

Buffer<float> to_device(const Context& context, const std::vector<float>& values, int64_t rows,
                        int64_t cols) {
  Buffer<float> buffer(context.device, rows, cols);
  detail::copy(context, buffer.data(), values.data(), values.size() * sizeof(float));
  context.synchronize();
  return buffer;
}

}  // namespace

DenseOptimizer::DenseOptimizer(const Context& context, const DenseOptimizerSettings& settings,
                               int64_t size, std::span<const WeightRange> weights, float l2)
    : settings_(settings) {
  EMBLEM_REQUIRE(!std::holds_alternative<RowWiseAdaGrad>(settings.rule),
                 "dense optimizer: ", name_of(settings.rule),
                 " keeps one state a row and is for tables only");
  const int64_t states = states_of(settings.rule);
  const float first =
      std::holds_alternative<AdaGrad>(settings.rule) ? settings.initial_accumulator : 0.0f;
  state_ = to_device(context, std::vector<float>(states * size, first), states, size);
  if (settings.weight_decay == 0.0f && l2 == 0.0f) return;
  std::vector<float> decay(size, settings.weight_decay);
  for (const WeightRange& range : weights) {
    EMBLEM_REQUIRE(0 <= range.begin && range.begin <= range.end && range.end <= size,
                   "dense optimizer: weights [", range.begin, ", ", range.end, ") of ", size,
                   " parameters");
    std::fill(decay.begin() + range.begin, decay.begin() + range.end, settings.weight_decay + l2);
  }
  decay_ = to_device(context, decay, size, 1);
}

void DenseOptimizer::update(const Context& context, View<float> parameters,
                            View<const float> gradients, float scale, float learning_rate,
                            int64_t step) {
  const int64_t size = parameters.size();
  EMBLEM_REQUIRE(gradients.size() == size && state_.size() == states_of(settings_.rule) * size,
                 "dense optimizer: ", size, " parameters, ", gradients.size(), " gradients and ",
                 state_.size(), " floats of state for ", states_of(settings_.rule), " a parameter");
  EMBLEM_REQUIRE(step >= 1, "dense optimizer: step ", step, "; steps count from 1");
  const Rule rule = at_step(settings_.rule, learning_rate, step);
  const DenseUpdate update{parameters.data,
                           gradients.data,
                           state_.data(),
                           decay_.size() == 0 ? nullptr : decay_.data(),
                           size,
                           scale};
  dispatch(
      context.device, [&] { cpu::update_dense(context, rule, update); },
      [&] { cuda::update_dense(context, rule, update); });
}

View<float> DenseOptimizer::state() { return state_.view(); }

SquaredNorm::SquaredNorm(const Context& context)
    : scratch_(context.device, context.device == Device::kCpu ? 0 : cuda::kNormParts + 1) {}

double SquaredNorm::operator()(const Context& context, View<const float> values) {
  return dispatch(
      context.device, [&] { return cpu::squared_norm(context, values); },
      [&] {
        double result = 0.0;
        double* there = scratch_.data() + cuda::kNormParts;
        cuda::squared_norm(context, values, scratch_.data(), there);
        detail::copy(context, &result, there, sizeof(result));
        context.synchronize();
        return result;
      });
}

void clip_by_value(const Context& context, View<float> values, float limit) {
  dispatch(
      context.device, [&] { cpu::clip_by_value(context, values, limit); },
      [&] { cuda::clip_by_value(context, values, limit); });
}

}  // namespace emblem
