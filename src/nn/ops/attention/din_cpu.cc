#include <algorithm>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/attention/din.h"
#include "nn/ops/vectors/segment.h"

namespace emblem {

void DinFeatures::forward_cpu(const OpContext& pass) {
  const int64_t n = in(0).cols, m = in(1).cols;
  parallel_for(pass.context, pass.rows, rows_per_chunk(4 * m), [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      const float* __restrict q = in(0).value() + pass.row_of[e] * n;
      const float* __restrict s = in(1).value() + e * m;
      float* __restrict y = out().value() + e * 4 * m;
      std::copy_n(q, n, y);
      std::copy_n(s, m, y + m);
      for (int64_t j = 0; j < n; ++j) y[2 * m + j] = q[j] - s[j];
      for (int64_t j = 0; j < n; ++j) y[3 * m + j] = q[j] * s[j];
      for (int64_t j = n; j < m; ++j) {
        y[j] = y[3 * m + j] = 0.0f;
        y[2 * m + j] = -s[j];
      }
    }
  });
}

void DinFeatures::backward_row(const OpContext& pass, int64_t r) {
  const int64_t n = in(0).cols, m = in(1).cols;
  const float* __restrict q = in(0).value() + r * n;
  if (write(0) == Write::kOverwrite) std::fill_n(in(0).gradient() + r * n, n, 0.0f);
  for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e) {
    const float* __restrict s = in(1).value() + e * m;
    const float* __restrict dy = out().gradient() + e * 4 * m;
    if (write(0) != Write::kNone) {
      float* __restrict dq = in(0).gradient() + r * n;
      for (int64_t j = 0; j < n; ++j) dq[j] += dy[j] + dy[2 * m + j] + dy[3 * m + j] * s[j];
    }
    with_write(write(1), [&](auto add) {
      float* __restrict ds = in(1).gradient() + e * m;
      for (int64_t j = 0; j < m; ++j) ds[j] = (add ? ds[j] : 0.0f) + dy[m + j] - dy[2 * m + j];
      for (int64_t j = 0; j < n; ++j) ds[j] += dy[3 * m + j] * q[j];
    });
  }
}

void DinFeatures::backward_cpu(const OpContext& pass) {
  const int64_t grain = cpu::batch_rows_per_chunk(pass, out().cols);
  parallel_for(pass.context, pass.batch_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) backward_row(pass, r);
  });
}

void DotWithRow::forward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      out().value()[e] =
          simd::dot(in(0).value() + pass.row_of[e] * cols, in(1).value() + e * cols, cols);
    }
  });
}

void DotWithRow::backward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols, grain = cpu::batch_rows_per_chunk(pass, cols);
  parallel_for(pass.context, pass.batch_rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float *q = in(0).value() + r * cols, *d = out().gradient();
      float* dq = in(0).gradient() + r * cols;
      if (write(0) == Write::kOverwrite) std::fill_n(dq, cols, 0.0f);
      for (int64_t e = pass.offsets[r]; e < pass.offsets[r + 1]; ++e) {
        if (write(0) != Write::kNone) simd::add_scaled(d[e], in(1).value() + e * cols, dq, cols);
        with_write(write(1), [&](auto add) {
          float* __restrict ds = in(1).gradient() + e * cols;
          for (int64_t j = 0; j < cols; ++j) ds[j] = (add ? ds[j] : 0.0f) + d[e] * q[j];
        });
      }
    }
  });
}

}  // namespace emblem
