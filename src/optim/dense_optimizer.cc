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
    : DenseOptimizer(context, settings, size, weights, l2, {{0, size}}) {}

DenseOptimizer::DenseOptimizer(const Context& context, const DenseOptimizerSettings& settings,
                               int64_t size, std::span<const WeightRange> weights, float l2,
                               std::vector<WeightRange> own)
    : settings_(settings), size_(size), own_(std::move(own)) {
  EMBLEM_REQUIRE(!is_row_wise(settings.rule), "dense optimizer: ", name_of(settings.rule),
                 " keeps one state per row and is for tables only");
  for (const WeightRange& range : own_) own_size_ += range.end - range.begin;
  const int64_t states = states_of(settings.rule);
  const float first =
      std::holds_alternative<AdaGrad>(settings.rule) ? settings.initial_accumulator : 0.0f;
  state_ = to_device(context, std::vector<float>(states * own_size_, first), states, own_size_);
  if (settings.weight_decay == 0.0f && l2 == 0.0f) return;
  std::vector<float> decay(size, settings.weight_decay);
  for (const WeightRange& range : weights) {
    EMBLEM_REQUIRE(0 <= range.begin && range.begin <= range.end && range.end <= size,
                   "dense optimizer: weights [", range.begin, ", ", range.end, ") of ", size,
                   " parameters");
    std::fill(decay.begin() + range.begin, decay.begin() + range.end, settings.weight_decay + l2);
  }
  std::vector<float> own_decay;
  for (const WeightRange& range : own_)
    own_decay.insert(own_decay.end(), decay.begin() + range.begin, decay.begin() + range.end);
  decay_ = to_device(context, own_decay, own_size_, 1);
}

void DenseOptimizer::update(const Context& context, View<float> parameters,
                            View<const float> gradients, float scale, float learning_rate,
                            int64_t step) {
  EMBLEM_REQUIRE(parameters.size() == size_ && gradients.size() == size_,
                 "dense optimizer: ", parameters.size(), " parameters, ", gradients.size(),
                 " gradients, but it was made for ", size_);
  EMBLEM_REQUIRE(step >= 1, "dense optimizer: step ", step, "; steps count from 1");
  const Rule rule = at_step(settings_.rule, learning_rate, step);
  int64_t before = 0;  // own parameters of earlier ranges
  for (const WeightRange& range : own_) {
    const DenseUpdate update{parameters.data + range.begin,
                             gradients.data + range.begin,
                             state_.data() + before,
                             decay_.size() == 0 ? nullptr : decay_.data() + before,
                             range.end - range.begin,
                             own_size_,
                             scale};
    dispatch(
        context.device, [&] { cpu::update_dense(context, rule, update); },
        [&] { cuda::update_dense(context, rule, update); });
    before += range.end - range.begin;
  }
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

DenseAverage::DenseAverage(const Context& context, float decay, View<const float> parameters)
    : decay_(decay), values_(context.device, parameters.size()) {
  detail::copy(context, values_.data(), parameters.data, parameters.size() * sizeof(float));
}

void DenseAverage::update(const Context& context, View<const float> parameters) {
  const float share = started_ ? 1.0f - decay_ : 1.0f;
  started_ = true;
  if (share == 1.0f) {
    detail::copy(context, values_.data(), parameters.data, parameters.size() * sizeof(float));
    return;
  }
  dispatch(
      context.device, [&] { cpu::move_towards(context, parameters, share, values_.view()); },
      [&] { cuda::move_towards(context, parameters, share, values_.view()); });
}

void DenseAverage::swap_with(const Context& context, View<float> parameters) {
  dispatch(
      context.device, [&] { cpu::swap_values(context, parameters, values_.view()); },
      [&] { cuda::swap_values(context, parameters, values_.view()); });
}

void add_scaled(const Context& context, View<const float> values, float scale, View<float> to) {
  dispatch(
      context.device, [&] { cpu::add_scaled(context, values, scale, to); },
      [&] { cuda::add_scaled(context, values, scale, to); });
}

void clip_by_value(const Context& context, AnyView values, float limit) {
  dispatch(
      context.device, [&] { cpu::clip_by_value(context, values.floats(), limit); },
      [&] { cuda::clip_by_value(context, values, limit); });
}

}  // namespace emblem
