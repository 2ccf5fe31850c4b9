#include "nn/concat.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

// to = (or +=) from, rows of `cols` columns, kWidth at a time.
template <int kWidth, bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    transfer_kernel(Matrix<const float> from, Matrix<float> to) {
  const int64_t in_row = to.cols / kWidth;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= to.rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kWidth;
  const float* source = from.data + r * from.stride + j;
  float* target = to.data + r * to.stride + j;
  if constexpr (kWidth == 4) {
    cuda::Four<float> values = cuda::load_four(source);
    if (kAdd) {
      const cuda::Four<float> before = cuda::load_four(target);
      for (int k = 0; k < 4; ++k) values.at[k] += before.at[k];
    }
    cuda::store_four(target, values);
  } else {
    *target = (kAdd ? *target : 0.0f) + *source;
  }
}

bool in_fours(Matrix<const float> m) {
  return m.cols % 4 == 0 && m.stride % 4 == 0 && reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
}

void transfer(const Context& context, Write write, Matrix<const float> from, Matrix<float> to) {
  if (to.rows == 0) return;
  with_write(write, [&](auto add) {
    constexpr bool kAdd = decltype(add)::value;
    const bool wide = in_fours(from) && in_fours(to);
    const unsigned blocks = cuda::blocks_of(to.rows * to.cols / (wide ? 4 : 1), cuda::kThreads);
    if (wide) {
      transfer_kernel<4, kAdd><<<blocks, cuda::kThreads, 0, context.stream>>>(from, to);
    } else {
      transfer_kernel<1, kAdd><<<blocks, cuda::kThreads, 0, context.stream>>>(from, to);
    }
    cuda::check_launch("launching a copy of columns");
  });
}

}  // namespace

void Concat::forward_cuda(const Pass& pass) {
  const Matrix<float> y(out().value, pass.rows, out().cols);
  for_each_part([&](size_t part, int64_t column) {
    const Matrix<float> x(in(part).value, pass.rows, in(part).cols);
    transfer(pass.context, Write::kOverwrite, x, y.block(0, column, pass.rows, x.cols));
  });
}

void Concat::backward_cuda(const Pass& pass) {
  const Matrix<float> dy(out().gradient, pass.rows, out().cols);
  for_each_part([&](size_t part, int64_t column) {
    const Matrix<float> dx(in(part).gradient, pass.rows, in(part).cols);
    transfer(pass.context, write(part), dy.block(0, column, pass.rows, dx.cols), dx);
  });
}

void Slice::forward_cuda(const Pass& pass) {
  const Matrix<float> x(in(0).value, pass.rows, in(0).cols), y(out().value, pass.rows, out().cols);
  transfer(pass.context, Write::kOverwrite, x.block(0, first_, pass.rows, y.cols), y);
}

void Slice::backward_cuda(const Pass& pass) {
  const Matrix<float> dx(in(0).gradient, pass.rows, in(0).cols),
      dy(out().gradient, pass.rows, out().cols);
  if (write(0) == Write::kOverwrite) {
    cuda_check(
        cudaMemsetAsync(dx.data, 0, pass.rows * dx.cols * sizeof(float), pass.context.stream),
        "zeroing the gradient of a slice");
  }
  transfer(pass.context, Write::kAdd, dy, dx.block(0, first_, pass.rows, dy.cols));
}

}  // namespace emblem
