#include <algorithm>

#include "core/threads/thread_pool.h"
#include "nn/ops/vectors/regroup.h"

namespace emblem {

void RegroupVectors::forward_cpu(const OpContext& pass) {
  std::copy_n(in(0).value(), size(pass), out().value());
}

void RegroupVectors::backward_cpu(const OpContext& pass) {
  const float* dy = out().gradient();
  float* dx = in(0).gradient();
  with_write(write(0), [&](auto add) {
    for (int64_t i = 0; i < size(pass); ++i) dx[i] = (add ? dx[i] : 0.0f) + dy[i];
  });
}

void FirstElements::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  for (int64_t r = 0; r < pass.batch_rows; ++r) {
    float* y = out().value() + r * cols;
    const int32_t first = pass.offsets[r];
    if (first < pass.offsets[r + 1])
      std::copy_n(in(0).value() + first * cols, cols, y);
    else
      std::fill_n(y, cols, 0.0f);
  }
}

void FirstElements::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  float* gradient = in(0).gradient();
  if (write(0) == Write::kOverwrite) std::fill_n(gradient, pass.rows * cols, 0.0f);
  if (write(0) == Write::kNone) return;
  for (int64_t r = 0; r < pass.batch_rows; ++r) {
    const int32_t first = pass.offsets[r];
    if (first == pass.offsets[r + 1]) continue;
    const float* dy = out().gradient() + r * cols;
    float* dx = gradient + first * cols;
    for (int64_t j = 0; j < cols; ++j) dx[j] += dy[j];
  }
}

}  // namespace emblem
