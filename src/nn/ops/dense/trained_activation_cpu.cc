#include <algorithm>

#include "core/threads/thread_pool.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/trained_activation.h"

namespace emblem {

void Prelu::forward_cpu(const OpContext& pass) {
  const float slope = pass.parameters[slope_];
  const float* x = in(0).value();
  float* y = out().value();
  parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
  });
}

void Prelu::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const float slope = pass.parameters[slope_];
  const float *x = in(0).value(), *dy = out().gradient();
  const RowGroups groups = row_groups(pass.rows);
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    float sum = 0.0f;
    for (int64_t r = begin; r < end; ++r) {
      float of_row = 0.0f;
      for (int64_t i = r * cols; i < (r + 1) * cols; ++i)
        of_row += x[i] > 0.0f ? 0.0f : dy[i] * x[i];
      sum += of_row;
    }
    pass.workspace[begin / groups.rows_each] = sum;
    with_write(write(0), [&](auto add) {
      float* dx = in(0).gradient();
      for (int64_t i = begin * cols; i < end * cols; ++i)
        dx[i] = (add ? dx[i] : 0.0f) + (x[i] > 0.0f ? dy[i] : slope * dy[i]);
    });
  });
  sum_groups(pass.context, pass.workspace, groups.count, 1, pass.gradients + slope_);
}

void DiceGate::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const float* alpha = pass.parameters + alpha_;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float *x = in(0).value() + r * cols, *z = in(1).value() + r * cols;
      float* y = out().value() + r * cols;
      for (int64_t j = 0; j < cols; ++j) {
        const float p = sigmoid_inline(z[j]);
        y[j] = x[j] * (p + alpha[j] * (1.0f - p));
      }
    }
  });
}

void DiceGate::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const float* alpha = pass.parameters + alpha_;
  const RowGroups groups = row_groups(pass.rows);
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    float* sums = pass.workspace + begin / groups.rows_each * cols;
    std::fill_n(sums, cols, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
      const float *x = in(0).value() + r * cols, *z = in(1).value() + r * cols;
      const float* dy = out().gradient() + r * cols;
      for (int64_t j = 0; j < cols; ++j) sums[j] += dy[j] * x[j] * (1.0f - sigmoid_inline(z[j]));
      with_write(write(0), [&](auto add) {
        float* dx = in(0).gradient() + r * cols;
        for (int64_t j = 0; j < cols; ++j) {
          const float p = sigmoid_inline(z[j]);
          dx[j] = (add ? dx[j] : 0.0f) + dy[j] * (p + alpha[j] * (1.0f - p));
        }
      });
      with_write(write(1), [&](auto add) {
        float* dz = in(1).gradient() + r * cols;
        for (int64_t j = 0; j < cols; ++j) {
          const float p = sigmoid_inline(z[j]);
          dz[j] = (add ? dz[j] : 0.0f) + dy[j] * x[j] * (1.0f - alpha[j]) * p * (1.0f - p);
        }
      });
    }
  });
  sum_groups(pass.context, pass.workspace, groups.count, cols, pass.gradients + alpha_);
}

}  // namespace emblem
