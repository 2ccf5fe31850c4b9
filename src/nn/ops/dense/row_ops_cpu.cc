#include <algorithm>
#include <cmath>
#include <limits>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/row_ops.h"

namespace emblem {

void Softmax::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = in(0).value() + r * cols;
      float* y = out().value() + r * cols;
      const float most = *std::max_element(x, x + cols);
      float sum = 0.0f;
      for (int64_t j = 0; j < cols; ++j) sum += y[j] = exp_inline(x[j] - most);
      for (int64_t j = 0; j < cols; ++j) y[j] /= sum;
    }
  });
}

void Softmax::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float *y = out().value() + r * cols, *dy = out().gradient() + r * cols;
        float* dx = in(0).gradient() + r * cols;
        const float mean = simd::dot(y, dy, cols);
        for (int64_t j = 0; j < cols; ++j) dx[j] = (add ? dx[j] : 0.0f) + y[j] * (dy[j] - mean);
      }
    });
  });
}

void Normalize::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* x = in(0).value() + r * cols;
      float* y = out().value() + r * cols;
      const float factor = 1.0f / std::max(std::sqrt(simd::dot(x, x, cols)), kLeast);
      factors_.data()[r] = factor;
      for (int64_t j = 0; j < cols; ++j) y[j] = x[j] * factor;
    }
  });
}

void Normalize::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float *y = out().value() + r * cols, *dy = out().gradient() + r * cols;
        float* dx = in(0).gradient() + r * cols;
        const float factor = factors_.data()[r], along = simd::dot(y, dy, cols);
        for (int64_t j = 0; j < cols; ++j)
          dx[j] = (add ? dx[j] : 0.0f) + factor * (dy[j] - along * y[j]);
      }
    });
  });
}

void StopGradient::forward_cpu(const OpContext& pass) {
  std::copy_n(in(0).value(), pass.rows * out().cols, out().value());
}

void Select::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const Tensor& labels = in(parts());
  for (int64_t r = 0; r < pass.rows; ++r) {
    const float label = labels.value()[r * labels.cols + column_];
    float* y = out().value() + r * cols;
    std::fill_n(y, cols, std::numeric_limits<float>::quiet_NaN());
    for (size_t part = 0; part < parts(); ++part) {
      if (label == static_cast<float>(part)) std::copy_n(in(part).value() + r * cols, cols, y);
    }
  }
}

void Select::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const Tensor& labels = in(parts());
  for (size_t part = 0; part < parts(); ++part) {
    with_write(write(part), [&](auto add) {
      for (int64_t i = 0; i < pass.rows * cols; ++i) {
        const float label = labels.value()[i / cols * labels.cols + column_];
        float& dx = in(part).gradient()[i];
        const float dy = label == static_cast<float>(part) ? out().gradient()[i] : 0.0f;
        dx = (add ? dx : 0.0f) + dy;
      }
    });
  }
}

}  // namespace emblem
