#include <algorithm>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/vectors/mix.h"

namespace emblem {

void Mix::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols, count = experts();
  parallel_for(
      pass.context, pass.rows, rows_per_chunk(cols * count), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          float* y = out().value() + r * cols;
          std::fill_n(y, cols, 0.0f);
          for (int64_t k = 0; k < count; ++k)
            simd::add_scaled(in(0).value()[r * count + k], in(k + 1).value() + r * cols, y, cols);
        }
      });
}

void Mix::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols, count = experts();
  const auto row = [&](int64_t r) {
    const float* dy = out().gradient() + r * cols;
    for (int64_t k = 0; k < count; ++k) {
      with_write(write(k + 1), [&](auto add) {
        const float gate = in(0).value()[r * count + k];
        float* dx = in(k + 1).gradient() + r * cols;
        for (int64_t j = 0; j < cols; ++j) dx[j] = (add ? dx[j] : 0.0f) + gate * dy[j];
      });
      with_write(write(0), [&](auto add) {
        float& dg = in(0).gradient()[r * count + k];
        dg = (add ? dg : 0.0f) + simd::dot(dy, in(k + 1).value() + r * cols, cols);
      });
    }
  };
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols * count),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) row(r);
               });
}

}  // namespace emblem
