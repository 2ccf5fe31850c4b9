#include <cmath>

#include "core/threads/thread_pool.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/norm/norm.h"

namespace emblem {
namespace {

struct Moments {
  float mean, inverse;
};
Moments measure(const float* x, int64_t cols) {
  float sum = 0.0f, square = 0.0f;
  for (int64_t j = 0; j < cols; ++j) sum += x[j];
  const float mean = sum / static_cast<float>(cols);
  for (int64_t j = 0; j < cols; ++j) square += (x[j] - mean) * (x[j] - mean);
  return {mean, 1.0f / std::sqrt(square / static_cast<float>(cols) + LayerNorm::kEpsilon)};
}

}  // namespace

// part: the sums of dz and of dz times the normalized input over the rows of a group.
template <class F>
void LayerNorm::backward_row(const OpContext& pass, int64_t r, float* part, F f) {
  const float *x = in(0).value() + r * cols_, *y = out().value() + r * cols_;
  const float* scale = pass.parameters + scale_;
  float* __restrict dz = out().gradient() + r * cols_;
  const float mean = moments_.data()[2 * r], inverse = moments_.data()[2 * r + 1];
  float plain = 0.0f, scaled = 0.0f;  // over the columns of this row
  for (int64_t j = 0; j < cols_; ++j) {
    const float normalized = (x[j] - mean) * inverse;
    dz[j] *= f.slope(y[j]);
    part[j] += dz[j];
    part[cols_ + j] += dz[j] * normalized;
    plain += dz[j] * scale[j];
    scaled += dz[j] * scale[j] * normalized;
  }
  plain /= static_cast<float>(cols_);
  scaled /= static_cast<float>(cols_);
  with_write(write(0), [&](auto add) {
    float* __restrict dx = in(0).gradient() + r * cols_;
    for (int64_t j = 0; j < cols_; ++j) {
      const float through = dz[j] * scale[j] - plain - (x[j] - mean) * inverse * scaled;
      dx[j] = (add ? dx[j] : 0.0f) + inverse * through;
    }
  });
}

void LayerNorm::forward_cpu(const OpContext& pass) {
  const float *scale = pass.parameters + scale_, *shift = pass.parameters + shift_;
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, vectors(pass), rows_per_chunk(cols_),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) {
                     const float* x = in(0).value() + r * cols_;
                     float* __restrict y = out().value() + r * cols_;
                     const auto [mean, inverse] = measure(x, cols_);
                     moments_.data()[2 * r] = mean;
                     moments_.data()[2 * r + 1] = inverse;
                     for (int64_t j = 0; j < cols_; ++j)
                       y[j] = f.value((x[j] - mean) * inverse * scale[j] + shift[j]);
                   }
                 });
  });
}

void LayerNorm::backward_cpu(const OpContext& pass) {
  const RowGroups groups = row_groups(vectors(pass));
  float* sums = pass.workspace;
  float* parts = sums + 2 * cols_;
  with_fused_activation(activation_, [&](auto f) {
    parallel_for(pass.context, vectors(pass), groups.rows_each, [&](int64_t begin, int64_t end) {
      float* part = parts + begin / groups.rows_each * 2 * cols_;
      std::fill_n(part, 2 * cols_, 0.0f);
      for (int64_t r = begin; r < end; ++r) backward_row(pass, r, part, f);
    });
  });
  sum_groups(pass.context, parts, groups.count, 2 * cols_, sums);
  std::copy_n(sums, cols_, pass.gradients + shift_);
  std::copy_n(sums + cols_, cols_, pass.gradients + scale_);
}

}  // namespace emblem
