#include "optim/dense_optimizer.h"

#include <algorithm>
#include <vector>

#include "core/thread_pool.h"

namespace emblem {
namespace {

constexpr int64_t kChunk = 16384;

struct Update {
  float* weights;
  const float* gradients;
  float* state;
  const float* decay;  // per parameter, or null
  int64_t size;
  float scale;
};

template <class R>
void update_range(const R& rule, const Update& u, int64_t begin, int64_t end) {
  float* __restrict weights = u.weights;
  const float* __restrict gradients = u.gradients;
  const float* __restrict decay = u.decay;
  float* __restrict state = u.state;
  if (decay == nullptr) {
    for (int64_t i = begin; i < end; ++i)
      rule(u.scale * gradients[i], weights[i], state + i, u.size);
  } else {
    for (int64_t i = begin; i < end; ++i) {
      rule(u.scale * gradients[i] + decay[i] * weights[i], weights[i], state + i, u.size);
    }
  }
}

void fill(const Context& context, float* values, int64_t size, float value) {
  parallel_for(context, size, kChunk,
               [&](int64_t begin, int64_t end) { std::fill(values + begin, values + end, value); });
}

int64_t states_of(const Rule& rule) { return state_floats(rule, 1); }

}  // namespace

DenseOptimizer::DenseOptimizer(const Context& context, const DenseOptimizerSettings& settings,
                               int64_t size, std::span<const WeightRange> weights, float l2)
    : settings_(settings), l2_(l2) {
  EMBLEM_REQUIRE(context.device == Device::kCpu, "dense optimizer: not available on ",
                 context.device, " yet; use --device cpu");
  EMBLEM_REQUIRE(!std::holds_alternative<RowWiseAdaGrad>(settings.rule),
                 "dense optimizer: ", name_of(settings.rule),
                 " keeps one state a row and is for tables only");
  state_ = Buffer<float>(context.device, states_of(settings.rule), size);
  fill(context, state_.data(), state_.size(),
       std::holds_alternative<AdaGrad>(settings.rule) ? settings.initial_accumulator : 0.0f);
  if (settings.weight_decay == 0.0f && l2 == 0.0f) return;
  decay_ = Buffer<float>(context.device, size);
  fill(context, decay_.data(), size, settings.weight_decay);
  for (const WeightRange& range : weights) {
    EMBLEM_REQUIRE(0 <= range.begin && range.begin <= range.end && range.end <= size,
                   "dense optimizer: weights [", range.begin, ", ", range.end, ") of ", size,
                   " parameters");
    for (int64_t i = range.begin; i < range.end; ++i) decay_.data()[i] = settings.weight_decay + l2;
  }
}

void DenseOptimizer::update(const Context& context, View<float> parameters,
                            View<const float> gradients, float scale, float learning_rate,
                            int64_t step) {
  const int64_t size = parameters.size();
  EMBLEM_REQUIRE(gradients.size() == size && state_.size() == states_of(settings_.rule) * size,
                 "dense optimizer: ", size, " parameters, ", gradients.size(), " gradients and ",
                 state_.size(), " floats of state for ", states_of(settings_.rule), " a parameter");
  EMBLEM_REQUIRE(step >= 1, "dense optimizer: step ", step, "; steps count from 1");
  const Update u{parameters.data,
                 gradients.data,
                 state_.data(),
                 decay_.size() == 0 ? nullptr : decay_.data(),
                 size,
                 scale};
  std::visit(
      [&](const auto& rule) {
        if constexpr (!std::decay_t<decltype(rule)>::kRowWise) {
          parallel_for(context, size, kChunk,
                       [&](int64_t begin, int64_t end) { update_range(rule, u, begin, end); });
        }
      },
      at_step(settings_.rule, learning_rate, step));
}

View<float> DenseOptimizer::state() { return state_.view(); }

double squared_norm(const Context& context, View<const float> values) {
  const int64_t count = values.size();
  std::vector<double> parts((count + kChunk - 1) / kChunk);
  parallel_for(context, count, kChunk, [&](int64_t begin, int64_t end) {
    double lanes[8] = {};  // independent sums, so that the loop is vectorized in a fixed order
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (int lane = 0; lane < 8; ++lane) {
        const double value = values.data[i + lane];
        lanes[lane] += value * value;
      }
    }
    double sum = 0.0;
    for (; i < end; ++i) sum += static_cast<double>(values.data[i]) * values.data[i];
    for (const double lane : lanes) sum += lane;
    parts[begin / kChunk] = sum;
  });
  double sum = 0.0;
  for (const double part : parts) sum += part;
  return sum;
}

void clip_by_value(const Context& context, View<float> values, float limit) {
  parallel_for(context, values.size(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = values.data[i];
      values.data[i] = value > limit ? limit : (value < -limit ? -limit : value);  // NaN stays
    }
  });
}

}  // namespace emblem
