#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/dense/concat.h"

namespace emblem {
namespace {

// Copies or adds the rows of `from` to those of `to`.
void transfer_rows(Write write, Matrix<const float> from, Matrix<float> to) {
  for (int64_t r = 0; r < to.rows; ++r) {
    if (write == Write::kAdd) {
      simd::add(from.row(r), to.row(r), to.cols);
    } else {
      std::copy_n(from.row(r), to.cols, to.row(r));
    }
  }
}

}  // namespace

void Concat::forward_cpu(const OpContext& pass) {
  const Matrix<float> y(out().value(), pass.rows, out().cols);
  parallel_for(pass.context, pass.rows, rows_per_chunk(y.cols), [&](int64_t begin, int64_t end) {
    for_each_part([&](size_t part, int64_t column) {
      const Matrix<float> x(in(part).value(), pass.rows, in(part).cols);
      transfer_rows(Write::kOverwrite, x.row_range(begin, end),
                    y.block(begin, column, end - begin, x.cols));
    });
  });
}

void Concat::backward_cpu(const OpContext& pass) {
  const Matrix<float> dy(out().gradient(), pass.rows, out().cols);
  parallel_for(pass.context, pass.rows, rows_per_chunk(dy.cols), [&](int64_t begin, int64_t end) {
    for_each_part([&](size_t part, int64_t column) {
      if (write(part) == Write::kNone) return;
      const Matrix<float> dx(in(part).gradient(), pass.rows, in(part).cols);
      transfer_rows(write(part), dy.block(begin, column, end - begin, dx.cols),
                    dx.row_range(begin, end));
    });
  });
}

void Slice::forward_cpu(const OpContext& pass) {
  const Matrix<float> x(in(0).value(), pass.rows, in(0).cols),
      y(out().value(), pass.rows, out().cols);
  parallel_for(pass.context, pass.rows, rows_per_chunk(y.cols), [&](int64_t begin, int64_t end) {
    transfer_rows(Write::kOverwrite, x.block(begin, first_, end - begin, y.cols),
                  y.row_range(begin, end));
  });
}

void Slice::backward_cpu(const OpContext& pass) {
  const Matrix<float> dx(in(0).gradient(), pass.rows, in(0).cols),
      dy(out().gradient(), pass.rows, out().cols);
  parallel_for(pass.context, pass.rows, rows_per_chunk(dx.cols), [&](int64_t begin, int64_t end) {
    if (write(0) == Write::kOverwrite) std::fill(dx.row(begin), dx.row(end), 0.0f);
    transfer_rows(Write::kAdd, dy.row_range(begin, end),
                  dx.block(begin, first_, end - begin, dy.cols));
  });
}

}  // namespace emblem
