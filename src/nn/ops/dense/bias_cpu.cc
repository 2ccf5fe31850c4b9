#include <algorithm>

#include "core/threads/thread_pool.h"
#include "nn/ops/dense/bias.h"

namespace emblem {

void BiasOp::forward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const float* bias = pass.parameters + bias_;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t j = 0; j < cols; ++j)
        out().value()[r * cols + j] = in(0).value()[r * cols + j] + bias[j];
    }
  });
}

void BiasOp::backward_cpu(const OpContext& pass) {
  const int64_t cols = out().cols;
  const RowGroups groups = row_groups(pass.rows);
  parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
    float* sum = pass.workspace + begin / groups.rows_each * cols;
    std::fill_n(sum, cols, 0.0f);
    for (int64_t i = begin * cols; i < end * cols; ++i) sum[i % cols] += out().gradient()[i];
    with_write(write(0), [&](auto add) {
      for (int64_t i = begin * cols; i < end * cols; ++i) {
        in(0).gradient()[i] = (add ? in(0).gradient()[i] : 0.0f) + out().gradient()[i];
      }
    });
  });
  sum_groups(pass.context, pass.workspace, groups.count, cols, pass.gradients + bias_);
}

}  // namespace emblem
