#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/interaction/interaction.h"

namespace emblem {

void FactorizationMachine::add_vectors(int64_t r, std::vector<float>& sum) const {
  std::fill(sum.begin(), sum.end(), 0.0f);
  const float* x = in(0).value() + r * in(0).cols;
  for (int64_t v = 0; v < in(0).cols; v += dim_) simd::add(x + v, sum.data(), dim_);
}

void FactorizationMachine::forward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    std::vector<float> sum(dim_), squares(dim_);
    for (int64_t r = begin; r < end; ++r) {
      add_vectors(r, sum);
      std::fill(squares.begin(), squares.end(), 0.0f);
      const float* x = in(0).value() + r * cols;
      for (int64_t v = 0; v < cols; v += dim_) {
        for (int64_t d = 0; d < dim_; ++d) squares[d] += x[v + d] * x[v + d];
      }
      float* y = out().value() + r * dim_;
      for (int64_t d = 0; d < dim_; ++d) y[d] = 0.5f * (sum[d] * sum[d] - squares[d]);
    }
  });
}

void FactorizationMachine::backward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols;
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
      std::vector<float> sum(dim_);
      for (int64_t r = begin; r < end; ++r) {
        add_vectors(r, sum);
        const float *x = in(0).value() + r * cols, *dy = out().gradient() + r * dim_;
        float* dx = in(0).gradient() + r * cols;
        for (int64_t v = 0; v < cols; v += dim_) {
          for (int64_t d = 0; d < dim_; ++d) {
            dx[v + d] = (add ? dx[v + d] : 0.0f) + dy[d] * (sum[d] - x[v + d]);
          }
        }
      }
    });
  });
}

}  // namespace emblem
