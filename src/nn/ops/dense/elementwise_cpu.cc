#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/dense/elementwise.h"

namespace emblem {
namespace {

constexpr int64_t kElementwiseChunk = 16384;

// body(i) gives the value added to, or stored in, to[i].
template <class Body>
void write_elements(const Context& context, Write write, float* to, int64_t count, Body&& body) {
  with_write(write, [&](auto add) {
    parallel_for(context, count, kElementwiseChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = (add ? to[i] : 0.0f) + body(i);
    });
  });
}

void scale_elements(const OpContext& pass, float factor, const float* from, Write write, float* to,
                    int64_t cols) {
  write_elements(pass.context, write, to, pass.rows * cols,
                 [=](int64_t i) { return factor * from[i]; });
}

}  // namespace

bool ActivationOp::keeps_zeros() const {
  bool kept = false;
  with_activation(activation_, [&](auto f) { kept = f.value(0.0f) == 0.0f; });
  return kept;
}

void ActivationOp::forward_cpu(const OpContext& pass) {
  with_activation(activation_, [&](auto f) {
    parallel_for(pass.context, pass.rows * out().cols, kElementwiseChunk,
                 [&](int64_t begin, int64_t end) {
                   const float* x = in(0).value();
                   float* y = out().value();
                   for (int64_t i = begin; i < end; ++i) y[i] = f.value(x[i]);
                 });
  });
}

void ActivationOp::backward_cpu(const OpContext& pass) {
  with_activation(activation_, [&](auto f) {
    const float* kept = f.kFromOutput ? out().value() : in(0).value();
    const float* dy = out().gradient();
    write_elements(pass.context, write(0), in(0).gradient(), pass.rows * out().cols,
                   [=](int64_t i) { return dy[i] * f.slope(kept[i]); });
  });
}

void Sum::forward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.rows * out().cols, kElementwiseChunk,
               [&](int64_t begin, int64_t end) {
                 std::copy(in(0).value() + begin, in(0).value() + end, out().value() + begin);
                 for (size_t part = 1; part < inputs().size(); ++part) {
                   simd::add(in(part).value() + begin, out().value() + begin, end - begin);
                 }
               });
}

void Sum::backward_cpu(const OpContext& pass) {
  const float* dy = out().gradient();
  for (size_t part = 0; part < inputs().size(); ++part) {
    write_elements(pass.context, write(part), in(part).gradient(), pass.rows * out().cols,
                   [=](int64_t i) { return dy[i]; });
  }
}

void Multiply::forward_cpu(const OpContext& pass) {
  const float *a = in(0).value(), *b = in(1).value();
  write_elements(pass.context, Write::kOverwrite, out().value(), pass.rows * out().cols,
                 [=](int64_t i) { return a[i] * b[i]; });
}

void Multiply::backward_cpu(const OpContext& pass) {
  const float* dy = out().gradient();
  for (size_t side : {0, 1}) {
    const float* other = in(1 - side).value();
    write_elements(pass.context, write(side), in(side).gradient(), pass.rows * out().cols,
                   [=](int64_t i) { return dy[i] * other[i]; });
  }
}

void Scale::forward_cpu(const OpContext& pass) {
  scale_elements(pass, factor_, in(0).value(), Write::kOverwrite, out().value(), out().cols);
}
void Scale::backward_cpu(const OpContext& pass) {
  scale_elements(pass, factor_, out().gradient(), write(0), in(0).gradient(), out().cols);
}

void ScaleBySigmoid::forward_cpu(const OpContext& pass) {
  const float *x = in(0).value(), *z = in(1).value();
  const float factor = factor_;
  write_elements(pass.context, Write::kOverwrite, out().value(), pass.rows * out().cols,
                 [=](int64_t i) { return x[i] * (factor * sigmoid_inline(z[i])); });
}

void ScaleBySigmoid::backward_cpu(const OpContext& pass) {
  const float *x = in(0).value(), *z = in(1).value(), *dy = out().gradient();
  const float factor = factor_;
  const int64_t count = pass.rows * out().cols;
  write_elements(pass.context, write(0), in(0).gradient(), count,
                 [=](int64_t i) { return dy[i] * (factor * sigmoid_inline(z[i])); });
  write_elements(pass.context, write(1), in(1).gradient(), count, [=](int64_t i) {
    const float s = sigmoid_inline(z[i]);
    return dy[i] * x[i] * (factor * s * (1.0f - s));
  });
}

void RowSum::forward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols / out().cols, sums = pass.rows * out().cols;
  parallel_for(pass.context, sums, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float sum = 0.0f;
      for (int64_t j = 0; j < cols; ++j) sum += in(0).value()[r * cols + j];
      out().value()[r] = sum;
    }
  });
}

void RowSum::backward_cpu(const OpContext& pass) {
  const int64_t cols = in(0).cols / out().cols, sums = pass.rows * out().cols;
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, sums, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* dx = in(0).gradient() + r * cols;
        const float dy = out().gradient()[r];
        for (int64_t j = 0; j < cols; ++j) dx[j] = (add ? dx[j] : 0.0f) + dy;
      }
    });
  });
}

}  // namespace emblem
