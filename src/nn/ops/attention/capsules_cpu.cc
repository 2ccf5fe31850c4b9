#include <algorithm>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/attention/capsules.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

// shares = softmax(scale * shares) over the first `there`; the others are 0.
void softmax_of_capsules(float scale, int there, int capsules, float* shares) {
  const float most = *std::max_element(shares, shares + there);
  float sum = 0.0f;
  for (int k = 0; k < there; ++k) sum += shares[k] = exp_inline(scale * (shares[k] - most));
  for (int k = 0; k < there; ++k) shares[k] /= sum;
  std::fill(shares + there, shares + capsules, 0.0f);
}

}  // namespace

void Capsules::route_row(const OpContext& pass, int64_t r) {
  const int64_t dim = in(0).cols, first = pass.offsets[r];
  const auto length = static_cast<int32_t>(pass.offsets[r + 1] - first);
  const int capsules = options_.capsules, there = options_.capsules_of(length);
  const int32_t count = options_.elements_read(length);
  const float* x = in(0).value() + first * dim;
  float *shares = shares_.data() + first * capsules, *sums = sums_.data() + r * out().cols;
  for (int32_t t = 0; t < count; ++t)
    for (int k = 0; k < there; ++k) shares[t * capsules + k] = options_.first_logit(t, k);
  for (int iteration = 1;; ++iteration) {
    std::fill_n(sums, out().cols, 0.0f);
    for (int32_t t = 0; t < count; ++t) {
      softmax_of_capsules(options_.scale, there, capsules, shares + t * capsules);
      for (int k = 0; k < there; ++k)
        simd::add_scaled(shares[t * capsules + k], x + t * dim, sums + k * dim, dim);
    }
    if (iteration == options_.iterations) break;
    for (int32_t t = 0; t < count; ++t) {
      const float* of = x + t * dim;
      const float share = 1.0f / std::max(std::sqrt(simd::dot(of, of, dim)), 1e-12f);
      for (int k = 0; k < there; ++k)
        shares[t * capsules + k] += share * simd::dot(sums + k * dim, of, dim);
    }
  }
  const Squash squash{options_.squash_power};
  for (int k = 0; k < capsules; ++k) {
    const float* v = sums + k * dim;
    const float factor = squash.factor(simd::dot(v, v, dim));
    float* y = out().value() + r * out().cols + k * dim;
    for (int64_t j = 0; j < dim; ++j) y[j] = factor * v[j];
  }
}

void Capsules::row_gradients(const OpContext& pass, int64_t r) {
  const int64_t dim = in(0).cols, first = pass.offsets[r];
  const auto length = static_cast<int32_t>(pass.offsets[r + 1] - first);
  const int capsules = options_.capsules, there = options_.capsules_of(length);
  const int32_t count = options_.elements_read(length);
  const float* shares = shares_.data() + first * capsules;
  float* sums = sums_.data() + r * out().cols;
  const Squash squash{options_.squash_power};
  for (int k = 0; k < there; ++k) {
    const float* dy = out().gradient() + r * out().cols + k * dim;
    float* v = sums + k * dim;
    const float square = simd::dot(v, v, dim), factor = squash.factor(square);
    const float along = squash.along(square) * simd::dot(v, dy, dim);
    for (int64_t j = 0; j < dim; ++j) v[j] = factor * dy[j] + along * v[j];
  }
  float* dx = in(0).gradient() + first * dim;
  if (write(0) == Write::kOverwrite) std::fill_n(dx, length * dim, 0.0f);
  for (int32_t t = 0; t < count; ++t)
    for (int k = 0; k < there; ++k)
      simd::add_scaled(shares[t * capsules + k], sums + k * dim, dx + t * dim, dim);
}

void Capsules::forward_cpu(const OpContext& pass) {
  const int64_t grain = cpu::batch_rows_per_chunk(pass, out().cols * options_.iterations);
  parallel_for(pass.context, pass.batch_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) route_row(pass, r);
  });
}

void Capsules::backward_cpu(const OpContext& pass) {
  if (write(0) == Write::kNone) return;
  const int64_t grain = cpu::batch_rows_per_chunk(pass, out().cols);
  parallel_for(pass.context, pass.batch_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) row_gradients(pass, r);
  });
}

void CapsuleMask::forward_cpu(const OpContext& pass) {
  for (int64_t r = 0; r < pass.batch_rows; ++r) {
    const int there = options_.capsules_of(pass.offsets[r + 1] - pass.offsets[r]);
    float* y = out().value() + r * out().cols;
    std::fill_n(y, there, there_);
    std::fill(y + there, y + out().cols, missing_);
  }
}

}  // namespace emblem
