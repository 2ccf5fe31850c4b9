#include <algorithm>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/attention/attention_pool.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/vectors/segment.h"

namespace emblem {

static void softmax(const float* scores, int64_t count, float* weights) {
  const float most = *std::max_element(scores, scores + count);
  for (int64_t i = 0; i < count; ++i) weights[i] = exp_inline(scores[i] - most);
  float sum = 0.0f;
  for (int64_t i = 0; i < count; ++i) sum += weights[i];
  const float share = 1.0f / sum;
  for (int64_t i = 0; i < count; ++i) weights[i] *= share;
}

void AttentionPool::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols, grain = cpu::batch_rows_per_chunk(pass, cols);
  parallel_for(pass.context, pass.batch_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = pass.offsets[r], last = pass.offsets[r + 1];
      float* y = out().value() + r * cols;
      std::fill_n(y, cols, 0.0f);
      if (first == last) continue;
      softmax(in(0).value() + first, last - first, weights_.data() + first);
      for (int64_t e = first; e < last; ++e)
        simd::add_scaled(weights_.data()[e], in(1).value() + e * cols, y, cols);
    }
  });
}

// The gradient of the scores first: they may be x itself.
void AttentionPool::backward_row(const OpContext& pass, int64_t r) {
  const int64_t cols = out().cols;
  const float *dy = out().gradient() + r * cols, *weights = weights_.data();
  float *slopes = slopes_.data(), mean = 0.0f;
  for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e) {
    slopes[e] = simd::dot(dy, in(1).value() + e * cols, cols);
    mean += weights[e] * slopes[e];
  }
  with_write(write(0), [&](auto add) {
    float* ds = in(0).gradient();
    for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e)
      ds[e] = (add ? ds[e] : 0.0f) + weights[e] * (slopes[e] - mean);
  });
  with_write(write(1), [&](auto add) {
    for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e) {
      float* __restrict dx = in(1).gradient() + e * cols;
      for (int64_t j = 0; j < cols; ++j) dx[j] = (add ? dx[j] : 0.0f) + weights[e] * dy[j];
    }
  });
}

void AttentionPool::backward_cpu(const OpContext& pass) {
  const int64_t grain = cpu::batch_rows_per_chunk(pass, 2 * out().cols);
  parallel_for(pass.context, pass.batch_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) backward_row(pass, r);
  });
}

}  // namespace emblem
