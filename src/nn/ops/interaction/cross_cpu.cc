#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/interaction/cross.h"

namespace emblem {

void CrossLayer::forward_cpu(const OpContext& pass) {
  const float *weight = pass.parameters + weight_, *bias = pass.parameters + bias_;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols_), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float *x0 = in(0).value() + r * cols_, *x = in(1).value() + r * cols_;
      float* __restrict y = out().value() + r * cols_;
      const float product = products_.data()[r] = simd::dot(x, weight, cols_);
      for (int64_t j = 0; j < cols_; ++j) y[j] = x0[j] * product + bias[j] + x[j];
    }
  });
}

void CrossLayer::backward_cpu(const OpContext& pass) {
  const RowGroups groups = row_groups(pass.rows);
  float* sums = pass.workspace;  // sums of the weight's and the bias' gradient
  float* parts = sums + 2 * cols_;
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    float* part = parts + begin / groups.rows_each * 2 * cols_;
    std::fill_n(part, 2 * cols_, 0.0f);
    for (int64_t r = begin; r < end; ++r) backward_row(pass, r, part);
  });
  sum_groups(pass.context, parts, groups.count, 2 * cols_, sums);
  std::copy_n(sums, cols_, pass.gradients + weight_);
  std::copy_n(sums + cols_, cols_, pass.gradients + bias_);
}

void CrossLayer::backward_row(const OpContext& pass, int64_t r, float* part) {
  const float *weight = pass.parameters + weight_, *dy = out().gradient() + r * cols_;
  const float *x0 = in(0).value() + r * cols_, *x = in(1).value() + r * cols_;
  const float product_gradient = simd::dot(dy, x0, cols_);
  simd::add_scaled(product_gradient, x, part, cols_);
  simd::add(dy, part + cols_, cols_);
  with_write(write(0), [&](auto add) {
    const float product = products_.data()[r];
    float* dx = in(0).gradient() + r * cols_;
    for (int64_t j = 0; j < cols_; ++j) dx[j] = (add ? dx[j] : 0.0f) + dy[j] * product;
  });
  with_write(write(1), [&](auto add) {
    float* dx = in(1).gradient() + r * cols_;
    for (int64_t j = 0; j < cols_; ++j) {
      dx[j] = (add ? dx[j] : 0.0f) + dy[j] + product_gradient * weight[j];
    }
  });
}

void CrossCombine::forward_cpu(const OpContext& pass) {
  const float *x0 = in(0).value(), *z = in(1).value(), *x = in(2).value();
  float* y = out().value();
  parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x0[i] * z[i] + x[i];
  });
}

void CrossCombine::backward_cpu(const OpContext& pass) {
  const float *x0 = in(0).value(), *z = in(1).value(), *dy = out().gradient();
  parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
    const auto put = [&](size_t input, auto body) {
      with_write(write(input), [&](auto add) {
        float* dx = in(input).gradient();
        for (int64_t i = begin; i < end; ++i) dx[i] = (add ? dx[i] : 0.0f) + body(i);
      });
    };
    put(0, [=](int64_t i) { return dy[i] * z[i]; });
    put(1, [=](int64_t i) { return dy[i] * x0[i]; });
    put(2, [=](int64_t i) { return dy[i]; });
  });
}

}  // namespace emblem
