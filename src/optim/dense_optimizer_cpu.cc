#include <algorithm>
#include <vector>

#include "core/threads/thread_pool.h"
#include "optim/dense_update.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kChunk = 16384;

// Some elements at a time, with copies of their states at distances that the compiler knows: it
// makes vectors of the loop.
template <class R>
void update_range(const R rule, const DenseUpdate& u, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 512;
  float states[std::max(R::kStates, 1) * kBlock], gradients[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    float* __restrict weights = u.weights + first;
    for (int64_t i = 0; i < count; ++i) gradients[i] = u.scale * u.gradients[first + i];
    if (u.decay != nullptr)
      for (int64_t i = 0; i < count; ++i) gradients[i] += u.decay[first + i] * weights[i];
    for (int s = 0; s < R::kStates; ++s)
      std::copy_n(u.state + s * u.stride + first, count, states + s * kBlock);
    for (int64_t i = 0; i < count; ++i) rule(gradients[i], weights[i], states + i, kBlock);
    for (int s = 0; s < R::kStates; ++s)
      std::copy_n(states + s * kBlock, count, u.state + s * u.stride + first);
  }
}

}  // namespace

void update_dense(const Context& context, const Rule& rule, const DenseUpdate& update) {
  std::visit(
      [&](const auto& r) {
        if constexpr (!std::decay_t<decltype(r)>::kRowWise) {
          parallel_for(context, update.size, kChunk,
                       [&](int64_t begin, int64_t end) { update_range(r, update, begin, end); });
        }
      },
      rule);
}

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

void add_scaled(const Context& context, View<const float> values, float scale, View<float> to) {
  parallel_for(context, values.size(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to.data[i] += scale * values.data[i];
  });
}

void move_towards(const Context& context, View<const float> values, float share, View<float> from) {
  parallel_for(context, values.size(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) from.data[i] += share * (values.data[i] - from.data[i]);
  });
}

void swap_values(const Context& context, View<float> a, View<float> b) {
  parallel_for(context, a.size(), kChunk, [&](int64_t begin, int64_t end) {
    std::swap_ranges(a.data + begin, a.data + end, b.data + begin);
  });
}

void clip_by_value(const Context& context, View<float> values, float limit) {
  parallel_for(context, values.size(), kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = values.data[i];
      values.data[i] = value > limit ? limit : (value < -limit ? -limit : value);  // NaN stays
    }
  });
}

}  // namespace emblem::cpu
