#include <algorithm>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace cpu {
namespace {

float share_of_length(Divide divide, int32_t length) {
  return divide == Divide::kNone || length == 0 ? 1.0f : 1.0f / static_cast<float>(length);
}

// to = (or +=) factor * from
void write_scaled(Write write, float factor, const float* from, int64_t count, float* to) {
  if (write == Write::kAdd) return simd::add_scaled(factor, from, to, count);
  for (int64_t i = 0; i < count; ++i) to[i] = factor * from[i];
}

}  // namespace

int64_t batch_rows_per_chunk(const OpContext& pass, int64_t cols) {
  const int64_t mean_length = pass.batch_rows == 0 ? 0 : pass.rows / pass.batch_rows;
  return rows_per_chunk(cols * (mean_length + 1));
}

void spread_rows(const OpContext& pass, Divide divide, const float* from, int64_t cols, Write write,
                 float* to) {
  if (write == Write::kNone) return;
  parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) {
      const int32_t r = pass.row_of[e];
      const float share = share_of_length(divide, pass.offsets[r + 1] - pass.offsets[r]);
      write_scaled(write, share, from + r * cols, cols, to + e * cols);
    }
  });
}

void sum_segments(const OpContext& pass, Divide divide, const float* from, int64_t cols,
                  Write write, float* to) {
  if (write == Write::kNone) return;
  parallel_for(pass.context, pass.batch_rows, batch_rows_per_chunk(pass, cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int32_t first = pass.offsets[r], last = pass.offsets[r + 1];
                   const float share = share_of_length(divide, last - first);
                   float* sum = to + r * cols;
                   if (write == Write::kOverwrite) std::fill_n(sum, cols, 0.0f);
                   for (int32_t e = first; e < last; ++e)
                     simd::add_scaled(share, from + e * cols, sum, cols);
                 }
               });
}

}  // namespace cpu

void Repeat::forward_cpu(const OpContext& pass) {
  cpu::spread_rows(pass, Divide::kNone, in(0).value(), out().cols, Write::kOverwrite,
                   out().value());
}
void Repeat::backward_cpu(const OpContext& pass) {
  cpu::sum_segments(pass, Divide::kNone, out().gradient(), out().cols, write(0), in(0).gradient());
}

void SegmentSum::forward_cpu(const OpContext& pass) {
  cpu::sum_segments(pass, divide_, in(0).value(), out().cols, Write::kOverwrite, out().value());
}
void SegmentSum::backward_cpu(const OpContext& pass) {
  cpu::spread_rows(pass, divide_, out().gradient(), out().cols, write(0), in(0).gradient());
}

void WindowMeans::forward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols;
  parallel_for(pass.context, pass.batch_rows, cpu::batch_rows_per_chunk(pass, cols),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int32_t first = pass.offsets[r], length = pass.offsets[r + 1] - first;
                   std::fill_n(out().value() + r * out().cols, out().cols, 0.0f);
                   for (int w = 0; w < windows_.count && windows_.begin(w) < length; ++w) {
                     const int32_t from = windows_.begin(w),
                                   to = std::min(windows_.ends[w], length);
                     const float share = 1.0f / static_cast<float>(to - from);
                     float* sum = out().value() + r * out().cols + w * cols;
                     for (int32_t e = first + from; e < first + to; ++e)
                       simd::add_scaled(share, in(0).value() + e * cols, sum, cols);
                   }
                 }
               });
}

void WindowMeans::backward_cpu(const OpContext& pass) {
  if (write(0) == Write::kNone) return;
  const int64_t cols = in(0).cols;
  parallel_for(pass.context, pass.batch_rows, cpu::batch_rows_per_chunk(pass, cols),
               [&](int64_t begin, int64_t end) {
                 float* dx = in(0).gradient();
                 if (write(0) == Write::kOverwrite)
                   std::fill(dx + pass.offsets[begin] * cols, dx + pass.offsets[end] * cols, 0.0f);
                 for (int64_t r = begin; r < end; ++r) {
                   const int32_t first = pass.offsets[r], length = pass.offsets[r + 1] - first;
                   for (int w = 0; w < windows_.count && windows_.begin(w) < length; ++w) {
                     const int32_t from = windows_.begin(w),
                                   to = std::min(windows_.ends[w], length);
                     const float share = 1.0f / static_cast<float>(to - from);
                     const float* dy = out().gradient() + r * out().cols + w * cols;
                     for (int32_t e = first + from; e < first + to; ++e)
                       simd::add_scaled(share, dy, dx + e * cols, cols);
                   }
                 }
               });
}

}  // namespace emblem
